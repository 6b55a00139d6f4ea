"""docs/reference.md says what the schemas say, all of it."""

from __future__ import annotations

from chaos.definitions import reference
from chaos.definitions.schema import schema_of
from chaos.registry import FAULTS, GRAMMAR, METRICS


def test_the_page_is_current() -> None:
    assert reference.FILE.read_text() == reference.markdown(GRAMMAR), f"run: {reference.COMMAND} > docs/reference.md"


def test_every_part_of_the_schemas_is_on_the_page() -> None:
    page = reference.markdown(GRAMMAR)
    own = {"ExpectationFile", "InjectFile", "DoFile", "NodeSelector", "LinkSelector"}
    faults = {model.__name__ for model in FAULTS.values()}
    experiment = schema_of("experiment", GRAMMAR)["$defs"]
    assert set(experiment) - own - faults - {"Flap"} == set(reference.parts(GRAMMAR))
    assert set(schema_of("topology", GRAMMAR)["$defs"]) == set(reference.TOPOLOGY)
    assert set(schema_of("existing", GRAMMAR)["$defs"]) == set(reference.EXISTING)
    assert set(schema_of("workload", GRAMMAR)["$defs"]) == set(reference.WORKLOAD)
    for name in (*reference.EXPERIMENT, *reference.TOPOLOGY):
        part = (experiment | schema_of("topology", GRAMMAR)["$defs"])[name]
        assert all(f"| `{key}` |" in page for key in part.get("properties", {}))
    assert all(f"| `{metric}` |" in page for metric in METRICS)


def test_no_row_breaks_its_table() -> None:
    for line in reference.markdown(GRAMMAR).splitlines():
        if line.startswith("|"):
            bars = line.replace("\\|", "").count("|")
            assert bars in (3, 4, 5), line
