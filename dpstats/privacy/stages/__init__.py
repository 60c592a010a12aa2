"""What a plan consists of: kinds of noisy stages, each with the cost that follows from its noise.

A stage holds what is drawn (the law, its scale) and what it hides (the sensitivity). What an accountant
sees of it is *derived* from these and stored nowhere: noise that is changed changes the claim with it.
"""

from __future__ import annotations

from dpstats.privacy.stages.additive import Block, JointStage, Spacing, Stage
from dpstats.privacy.stages.discovery import Discovery
from dpstats.privacy.stages.private_scale import HEAVY_SLACK, LEAST_HEAVY, SMOOTH_LAWS, OneOf, Smooth
from dpstats.privacy.stages.responses import Coins, Responses, Shuffle
from dpstats.privacy.stages.selection import Choice, Selection
from dpstats.privacy.stages.streams import Comparisons

AnyStage = (
    Stage
    | JointStage
    | Discovery
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
    "AnyStage",
    "Block",
    "Choice",
    "Coins",
    "Comparisons",
    "Discovery",
    "JointStage",
    "OneOf",
    "Responses",
    "Selection",
    "Shuffle",
    "Smooth",
    "Spacing",
    "Stage",
]
