"""Python packages that this one does not bring: which extra does, how it is installed, and what of it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Extra:
    """An extra of pyproject.toml, and the packages of it that are looked for, by the names that Python imports."""

    name: str
    packages: tuple[str, ...]

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'opensearch-chaos[{self.name}]'"

    def missing(self) -> list[str]:
        """Those that are not installed; imports none."""
        return [package for package in self.packages if find_spec(package) is None]


SECURE = Extra("secure", ("cryptography", "bcrypt"))
DOCKER = Extra("docker", ("docker",))
ASYNC = Extra("async", ("aiohttp",))
AWS = Extra("aws", ("boto3",))
S3 = Extra("s3", ("moto",))
DASK = Extra("dask", ("distributed",))
KUBERNETES = Extra("kubernetes", ("kubernetes",))
EVERY = (SECURE, DOCKER, ASYNC, AWS, S3, DASK, KUBERNETES)
