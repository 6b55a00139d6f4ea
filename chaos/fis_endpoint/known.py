"""What FIS can do, by chaos.aws.catalogue, as the endpoint lists it."""

from __future__ import annotations

from chaos.fis_endpoint.templates import Catalogue, KnownAction, KnownType

_ZONE = "The Availability Zone that the resources are in"
_PARAMETERS = {
    "aws:ec2:ebs-volume": {"availabilityZoneIdentifier": (_ZONE, False)},
    "aws:ec2:subnet": {
        "availabilityZoneIdentifier": (_ZONE, False),
        "vpc": ("The VPC that the subnets are in", False),
    },
}
"""Resource type → parameters that its targets take (FIS User Guide, "Targets")."""


def of_aws() -> Catalogue:
    import chaos.aws.catalogue as catalogue

    actions = {
        each.id: KnownAction(
            id=each.id,
            description=f"At its end or at a stop: {each.ends}"[:512],
            targets={} if each.target is None else {each.target[0]: each.target[1]},
            parameters={one.name: (one.takes.words, one.required) for one in each.parameters},
        )
        for each in catalogue.ACTIONS.values()
    }
    kinds = sorted({kind for each in actions.values() for kind in each.targets.values()})
    types = {kind: KnownType(kind, f"Resources of the type {kind}", _PARAMETERS.get(kind, {})) for kind in kinds}
    return Catalogue(actions, types, catalogue.problems, catalogue.seconds)
