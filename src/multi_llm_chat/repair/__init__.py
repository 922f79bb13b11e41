"""Makes any history valid for its target: pairing, order, speakers, ids, names and shape."""

from multi_llm_chat.repair.engine import Repaired, repair
from multi_llm_chat.repair.framing import frame
from multi_llm_chat.repair.policy import PAIRS_ONLY, Note, RepairPolicy, Target

__all__ = ["PAIRS_ONLY", "Note", "RepairPolicy", "Repaired", "Target", "frame", "repair"]
