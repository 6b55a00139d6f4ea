"""The least rights in IAM for faults by AWS FIS on one target: whom FIS trusts, its role, and the runner's.

Actions and resources are those of the FIS User Guide (Policy examples; the Actions reference names what each action
needs). Instances are touched only where they have the tag ``chaos`` = ``allowed``; what FIS makes of network ACLs is
known by its tag ``managedByFIS``. Never run on AWS: a policy that lacks something refuses, and does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaos.aws.catalogue import DOCUMENTS

if TYPE_CHECKING:
    from chaos.definitions.fis import FisFile

VERSION = "2012-10-17"
TAG = ("chaos", "allowed")
"""What an instance or subnet must have to be touched."""
STOP, REBOOT = "aws:ec2:stop-instances", "aws:ec2:reboot-instances"
SEND, CUT = "aws:ssm:send-command", "aws:network:disrupt-connectivity"
SHELL = "AWS-RunShellScript"
STOPS = (("aws:ec2:stop-instances",), ())
KILLS = (("aws:ssm:send-command", "aws:fis:wait"), ("AWSFIS-Run-Kill-Process", "AWS-RunShellScript"))
REBOOTS = (("aws:ec2:reboot-instances", "aws:fis:wait"), ())
CUTS = (("aws:network:disrupt-connectivity",), ())
DELAYS = (("aws:ssm:send-command",), ("AWSFIS-Run-Network-Latency-Sources",))
LOSES = (("aws:ssm:send-command",), ("AWSFIS-Run-Network-Packet-Loss-Sources",))
ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "node.stop": STOPS,
    "zone.power_loss": STOPS,
    "node.kill": KILLS,
    "node.restart": REBOOTS,
    "cluster_manager.quorum_loss": KILLS,
    "zone.isolation": CUTS,
    "zone.partition": CUTS,
    "network.latency": DELAYS,
    "zone.slowness": DELAYS,
    "network.drop": LOSES,
    "network.loss": LOSES,
}
"""Kind of fault → actions of FIS, and documents of Systems Manager, that it is made of."""


@dataclass(frozen=True)
class Wanted:
    """What is to be allowed. ``actions``: of FIS; ``documents``: of Systems Manager; ``role``: FIS's, by its ARN."""

    partition: str
    region: str
    account: str
    target: str
    role: str
    actions: Collection[str]
    documents: Collection[str]

    def arn(self, service: str, what: str, *, account: bool = True, region: bool = True) -> str:
        return (
            f"arn:{self.partition}:{service}:{self.region if region else ''}:{self.account if account else ''}:{what}"
        )


def wanted_for(file: FisFile, target: str, kinds: Iterable[str]) -> Wanted:
    """What faults of these kinds need on a target, by its file's ``fis``. Raises KeyError for a kind that FIS does not
    offer."""
    made = [ACTIONS[kind] for kind in kinds]
    actions = {action for actions, _ in made for action in actions}
    documents = {document for _, documents in made for document in documents}
    return Wanted(file.partition, file.region, file.account, target, file.role, actions, documents)


def trust(wanted: Wanted) -> dict[str, Any]:
    """Who may take FIS's role: FIS, for experiments of this account and region."""
    return _policy(
        {
            "Sid": "FisAlone",
            "Effect": "Allow",
            "Principal": {"Service": "fis.amazonaws.com"},
            "Action": "sts:AssumeRole",
            "Condition": {
                "StringEquals": {"aws:SourceAccount": wanted.account},
                "ArnLike": {"aws:SourceArn": wanted.arn("fis", "experiment/*")},
            },
        }
    )


def experiment_role(wanted: Wanted) -> dict[str, Any]:
    """What FIS may do for the actions that are wanted, and nothing else."""
    instances = wanted.arn("ec2", "instance/*")
    statements = [_allow("Look", ["ec2:DescribeInstances", "tag:GetResources"])]
    if STOP in wanted.actions:
        statements.append(_allow("StopAndStart", ["ec2:StopInstances", "ec2:StartInstances"], [instances], _tagged()))
        statements.append(
            _allow("EncryptedVolumes", ["kms:CreateGrant"], condition={"Bool": {"kms:GrantIsForAWSResource": "true"}})
        )
    if REBOOT in wanted.actions:
        statements.append(_allow("Reboot", ["ec2:RebootInstances"], [instances], _tagged()))
    if SEND in wanted.actions:
        documents = [wanted.arn("ssm", f"document/{name}", account=False) for name in sorted(wanted.documents)]
        statements += [
            _allow("TheseDocuments", ["ssm:SendCommand"], documents),
            _allow("TheseInstances", ["ssm:SendCommand"], [instances], _tagged("ssm:resourceTag")),
            _allow("Commands", ["ssm:ListCommands", "ssm:CancelCommand"]),
        ]
        known = [DOCUMENTS[name].reads for name in wanted.documents if name in DOCUMENTS]
        if reads := sorted({each for reads in known for each in reads} - {"ec2:DescribeInstances"}):
            statements.append(_allow("LookUpSources", reads))
    if CUT in wanted.actions:
        acl, subnet, vpc = (wanted.arn("ec2", f"{each}/*") for each in ("network-acl", "subnet", "vpc"))
        new = {"StringEquals": {"aws:RequestTag/managedByFIS": "true"}}
        made = {"StringEquals": {"ec2:ResourceTag/managedByFIS": "true"}}
        creating = {"StringEquals": {"ec2:CreateAction": "CreateNetworkAcl", **new["StringEquals"]}}
        statements += [
            _allow("MakeAnAcl", ["ec2:CreateNetworkAcl"], [acl], new),
            _allow("InTheVpc", ["ec2:CreateNetworkAcl"], [vpc]),
            _allow("TagIt", ["ec2:CreateTags"], [acl], creating),
            _allow("FillAndDeleteIt", ["ec2:CreateNetworkAclEntry", "ec2:DeleteNetworkAcl"], [acl], made),
            _allow("OnTheseSubnets", ["ec2:ReplaceNetworkAclAssociation"], [subnet], _tagged()),
            _allow("WithAnyAcl", ["ec2:ReplaceNetworkAclAssociation"], [acl]),
            _allow("LookAtNetworks", [f"ec2:Describe{each}" for each in ("NetworkAcls", "Subnets", "Vpcs")]),
            _allow("LookAtPrefixLists", ["ec2:DescribeManagedPrefixLists", "ec2:GetManagedPrefixListEntries"]),
        ]
    return _policy(*statements)


def runner_role(wanted: Wanted) -> dict[str, Any]:
    """What whoever runs opensearch-chaos may do: make, start and stop its own experiments, look, and put back what FIS
    leaves."""
    template, experiment = wanted.arn("fis", "experiment-template/*"), wanted.arn("fis", "experiment/*")
    allowed = [  # AWS's guide has no account in the ARN of an action, the service authorization reference has one
        wanted.arn("fis", f"action/{each}", account=account)
        for each in sorted(wanted.actions)
        for account in (False, True)
    ]
    asked = {"StringEquals": {"aws:RequestTag/opensearch-chaos:target": wanted.target}}
    ours = {"StringEquals": {"aws:ResourceTag/opensearch-chaos:target": wanted.target}}
    instances = wanted.arn("ec2", "instance/*")
    statements = [
        _allow("MakeTemplates", ["fis:CreateExperimentTemplate", "fis:TagResource"], [template], asked),
        _allow("OfTheseActions", ["fis:CreateExperimentTemplate"], allowed),
        _allow("StartThem", ["fis:StartExperiment"], [template], ours),
        _allow("AsTheirOwn", ["fis:StartExperiment", "fis:TagResource"], [experiment], asked),
        _allow("EndThem", ["fis:StopExperiment", "fis:DeleteExperimentTemplate"], [template, experiment], ours),
        _allow(
            "LookAtThem",
            [
                *(f"fis:Get{each}" for each in ("Experiment", "ExperimentTemplate", "SafetyLever")),
                *(f"fis:List{each}" for each in ("Experiments", "ExperimentTemplates", "ExperimentResolvedTargets")),
            ],
        ),
        _allow(
            "GiveFisItsRole",
            ["iam:PassRole"],
            [wanted.role],
            {"StringEquals": {"iam:PassedToService": "fis.amazonaws.com"}},
        ),
        _allow(
            "FirstUseOfFis",
            ["iam:CreateServiceLinkedRole"],
            [wanted.arn("iam", "role/aws-service-role/fis.amazonaws.com/*", region=False)],
            {"StringEquals": {"iam:AWSServiceName": "fis.amazonaws.com"}},
        ),
        _allow(
            "Look",
            [
                "ec2:DescribeInstances",
                *(["ec2:DescribeNetworkAcls"] if CUT in wanted.actions else []),
                "cloudwatch:DescribeAlarms",
                "ssm:DescribeInstanceInformation",
            ],
        ),
        _allow("LookAtFisRole", ["iam:GetRole", "iam:SimulatePrincipalPolicy"], [wanted.role]),
    ]
    starts = REBOOT in wanted.actions or SHELL in wanted.documents
    if STOP in wanted.actions or starts:
        statements.append(_allow("StartWhatIsLeftStopped", ["ec2:StartInstances"], [instances], _tagged()))
    if CUT in wanted.actions:
        acl, subnet = wanted.arn("ec2", "network-acl/*"), wanted.arn("ec2", "subnet/*")
        made = {"StringEquals": {"ec2:ResourceTag/managedByFIS": "true"}}
        statements += [
            _allow("PutAclsBack", ["ec2:ReplaceNetworkAclAssociation"], [subnet], _tagged()),
            _allow("WithAnyAcl", ["ec2:ReplaceNetworkAclAssociation"], [acl]),
            _allow("DeleteClones", ["ec2:DeleteNetworkAcl"], [acl], made),
        ]
    if starts:
        shell = wanted.arn("ssm", f"document/{SHELL}", account=False)
        statements += [
            _allow("StartTheService", ["ssm:SendCommand"], [shell]),
            _allow("OnTheseInstances", ["ssm:SendCommand"], [instances], _tagged("ssm:resourceTag")),
        ]
        statements.append(_allow("SeeItStarted", ["ssm:ListCommandInvocations"]))
    if any(DOCUMENTS[name].network for name in wanted.documents if name in DOCUMENTS):
        statements.append(_allow("EndCommands", ["ssm:ListCommands", "ssm:CancelCommand"]))
    return _policy(*statements)


def _tagged(key: str = "aws:ResourceTag") -> dict[str, Any]:
    return {"StringEquals": {f"{key}/{TAG[0]}": TAG[1]}}


def _allow(
    sid: str, actions: Sequence[str], resources: Sequence[str] = ("*",), condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**made, "Condition": condition} if condition else made


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": VERSION, "Statement": list(statements)}
