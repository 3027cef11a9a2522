"""The section `schedule`: when a release is refreshed. Times of a cron expression in a time zone, as cron has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from sqlanon.errors import did_you_mean
from sqlanon.policy.parts import SHARED, Text

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = "minute, hour, day of the month, month, day of the week"
Count = Annotated[int, Field(strict=True, ge=0, le=10)]


class Schedule(BaseModel):
    """When a release is refreshed."""

    model_config = SHARED
    cron: Text = Field(description="When, as in a crontab: '0 3 * * *' is every day at 3:00; @daily and the like too.")
    tz: Text = Field("UTC", description="Time zone of the times, such as Europe/Athens.")
    misfire: Literal["run", "skip"] = Field(
        "run", description="Whether a time that was missed is made up for, once, or passed over."
    )
    retries: Count = Field(3, description="How often a refresh that failed for a passing reason is tried again.")

    @field_validator("cron")
    @classmethod
    def _known(cls, value: str) -> str:
        expression = ALIASES.get(value.strip().lower(), value)
        if len(expression.split()) != 5:
            raise _wrong(f"'{value}' is no cron expression", f"it has five fields: {FIELDS}; or {', '.join(ALIASES)}")
        try:
            next(CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            raise _wrong(
                f"'{value}' is no cron expression: {str(error) or 'it matches no time'}", f"it has {FIELDS}"
            ) from None
        return value

    @field_validator("tz")
    @classmethod
    def _zone(cls, value: str) -> str:
        if value not in available_timezones():
            hint = did_you_mean(value, sorted(available_timezones())) or "write it as Europe/Athens, or UTC"
            raise _wrong(f"there is no time zone '{value}'", hint)
        return value

    def times(self, after: datetime) -> Iterator[datetime]:
        """The times after a moment, in UTC.

        An hour that is left out in spring does not lose its times, and one that comes twice in autumn has them once;
        but what runs every hour runs every hour.
        """
        expression = ALIASES.get(self.cron.strip().lower(), self.cron)
        for moment in CronSim(expression, after.astimezone(ZoneInfo(self.tz))):
            if moment.astimezone(UTC) > after:  # in the second of two equal hours, times of the first come again
                yield moment.astimezone(UTC)

    def due(self, last: datetime, now: datetime) -> datetime | None:
        """The time for which a refresh is due, if the last one was for `last`; of several that were missed, the latest.

        One that is missed by more than a minute is passed over where the policy says so.
        """
        missed = list(
            itertools.takewhile(lambda moment: moment <= now, itertools.islice(self.times(last), MOST_MISSED))
        )
        if not missed:
            return None
        latest = missed[-1]
        if len(missed) == MOST_MISSED:  # long ago: begin again from now
            latest = next(self._back(now))
        late = now - latest > timedelta(minutes=1)
        return None if late and self.misfire == "skip" else latest

    def _back(self, now: datetime) -> Iterator[datetime]:
        expression = ALIASES.get(self.cron.strip().lower(), self.cron)
        for moment in CronSim(expression, now.astimezone(ZoneInfo(self.tz)), reverse=True):
            yield moment.astimezone(UTC)


MOST_MISSED = 1000


def _wrong(message: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError("policy", "{said}", {"said": message, "hint": hint, "at": ""})
