"""The stages of a plan: kinds of noisy releases, each with the privacy cost that follows from its noise.

A stage stores the noise (distribution and scale) and the sensitivity. The event for the accountant is *derived* from
these and never stored. Changing the noise therefore changes the claimed cost.
"""

from __future__ import annotations

from dpstats.privacy.stages.additive import (
    HEAVY_SLACK,
    LEAST_HEAVY,
    SMOOTH_LAWS,
    Added,
    Block,
    JointStage,
    OneOf,
    Smooth,
    Spacing,
    Stage,
)
from dpstats.privacy.stages.selection import (
    Choice,
    Coins,
    Comparisons,
    Discovery,
    KeyCounts,
    Responses,
    Selection,
    Shuffle,
)

AnyStage = (
    Stage
    | JointStage
    | Discovery
    | KeyCounts
    | Selection
    | Choice
    | Smooth
    | OneOf
    | Responses
    | Comparisons
    | Coins
    | Shuffle
)
KINDS = (
    Stage,
    JointStage,
    Discovery,
    KeyCounts,
    Selection,
    Choice,
    Smooth,
    OneOf,
    Responses,
    Comparisons,
    Coins,
    Shuffle,
)

__all__ = [
    "HEAVY_SLACK",
    "KINDS",
    "LEAST_HEAVY",
    "SMOOTH_LAWS",
    "Added",
    "AnyStage",
    "Block",
    "Choice",
    "Coins",
    "Comparisons",
    "Discovery",
    "JointStage",
    "KeyCounts",
    "OneOf",
    "Responses",
    "Selection",
    "Shuffle",
    "Smooth",
    "Spacing",
    "Stage",
]
