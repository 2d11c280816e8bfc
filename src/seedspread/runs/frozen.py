"""What descriptions of runs and studies are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class FrozenConfig(BaseModel):
    """A piece of a run's description: immutable, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1)]
