"""What the parameters of all methods have in common."""

from __future__ import annotations

from typing import Annotated

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

    def read(self) -> dict[str, tuple[str, ...]]:
        return {"columns": self.columns} | ({"within": self.within} if self.within else {})

    @model_validator(mode="after")
    def _apart(self) -> Within:
        both = [name for name in self.columns if name in self.within]
        if both:
            raise ValueError(f"'{both[0]}' is in 'columns' and in 'within'; keep it in one of them")
        return self
