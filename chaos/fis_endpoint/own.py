"""The actions that hit no resource: waiting, and asking alarms. All others are the lab's hands'."""

from __future__ import annotations

from collections.abc import Callable

from chaos.fis_endpoint.doing import Doing, Failed, Hands

WAIT = "aws:fis:wait"
ASSERT_ALARM_STATE = "aws:cloudwatch:assert-alarm-state"
AlarmState = Callable[[str], str]
"""ARN of an alarm of CloudWatch → OK, ALARM or INSUFFICIENT_DATA. Raises where there is none, or nobody to ask."""


class WithOwnActions:
    """Hands that do these two by themselves, and hand on the rest."""

    def __init__(self, hands: Hands, alarm_state: AlarmState) -> None:
        self._hands, self._alarm_state = hands, alarm_state

    def unable(self, doing: Doing) -> str | None:
        return None if doing.action in (WAIT, ASSERT_ALARM_STATE) else self._hands.unable(doing)

    def begin(self, doing: Doing) -> None:
        if doing.action == ASSERT_ALARM_STATE:
            wanted = doing.parameters["alarmStates"].split(",")
            for arn in doing.parameters["alarmArns"].split(","):
                state = self._alarm_state(arn)
                if state not in wanted:
                    raise Failed("DependentServiceFailure", f"{arn} is {state}, not {' or '.join(wanted)}")
        elif doing.action != WAIT:
            self._hands.begin(doing)

    def still(self, doing: Doing) -> str | None:
        return None if doing.action in (WAIT, ASSERT_ALARM_STATE) else self._hands.still(doing)

    def end(self, doing: Doing) -> None:
        if doing.action not in (WAIT, ASSERT_ALARM_STATE):
            self._hands.end(doing)


class Alarms:
    """An AlarmState by a boto3 client of CloudWatch."""

    def __init__(self, cloudwatch: object) -> None:
        self._cloudwatch = cloudwatch

    def __call__(self, arn: str) -> str:
        """Raises LookupError where no alarm has this ARN, and what boto3 raises."""
        name = arn.partition(":alarm:")[2]
        describe = getattr(self._cloudwatch, "describe_alarms")  # noqa: B009 - boto3 makes its methods at run time
        answer = describe(AlarmNames=[name], AlarmTypes=["MetricAlarm", "CompositeAlarm"])
        for alarm in [*answer.get("MetricAlarms", ()), *answer.get("CompositeAlarms", ())]:
            if alarm["AlarmArn"] == arn:
                return str(alarm["StateValue"])
        raise LookupError(f"there is no alarm {arn}")
