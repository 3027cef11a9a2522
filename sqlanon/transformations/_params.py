"""What the parameters of all methods have in common."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ValueError(f"the column '{name}' is there twice; keep one")
    return names


Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AfterValidator(_once)]
Columns = Annotated[Names, Field(min_length=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, lt=1)]


class Base(BaseModel):
    """Not a method: what pydantic is told for all of them, and the columns that they read or change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Parameters that say how results are written, or what is promised of them, and change no draw: new draws for them
    # would be a second look at the same values.
    UNDRAWN: ClassVar[frozenset[str]] = frozenset({"decimals"})

    def apart(self) -> bool:
        """Whether each column is changed by itself, whatever other columns are listed beside it."""
        return True

    def steps(self) -> list[dict[str, Any]]:
        """What the draws of a column depend on, beside the column: one item for each set of draws. A release whose
        steps begin with those of another one is made of it, by more draws."""
        return [self.model_dump(mode="json", exclude={"columns", *self.UNDRAWN})]

    def changed(self) -> tuple[str, ...]:
        """The columns whose values are changed."""
        return tuple(getattr(self, "columns", ()))

    def read(self) -> dict[str, tuple[str, ...]]:
        """All columns that are named, by parameter."""
        return {"columns": self.changed()} if self.changed() else {}


class Within(Base):
    """Not a method: columns whose values move between rows that are equal on other columns."""

    columns: Columns
    within: Names = ()

    def apart(self) -> bool:
        return False

    def read(self) -> dict[str, tuple[str, ...]]:
        return {"columns": self.columns} | ({"within": self.within} if self.within else {})

    @model_validator(mode="after")
    def _apart(self) -> Within:
        both = [name for name in self.columns if name in self.within]
        if both:
            raise ValueError(f"'{both[0]}' is in 'columns' and in 'within'; keep it in one of them")
        return self
