"""An instrument: one thing that is observed while a run lasts, with what is judged and drawn of it.

``Instrument`` is all of it. ``Observer`` is the half that observes: it gets a ``Context`` (the run's folder, its lab, a
way to say that something broke), begins and ends at ``Begins`` and ``Ends``, and writes lines by an ``EventWriter``.
``Section``, with ``Row`` and ``Curve``, is what the report draws; ``Trial`` are the lines by which a check of it is
tried. An observer that provides a capability to the run inherits it: ``ClusterSight``, ``Steering``, ``ProcessorSets``,
``ProcessWatch``, ``Traffic``. ``Guard`` ends a run. ``Event`` is an event of a kind of its own in the run's record.
The file is loaded where a saved run is judged, and imports no lab.
"""

from __future__ import annotations

from chaos.base.guarding import Guard
from chaos.checks.instrument import (
    Begins,
    ClusterSight,
    Context,
    Ends,
    Instrument,
    Observer,
    ProcessorSets,
    ProcessWatch,
    Steering,
    Traffic,
    Trial,
)
from chaos.checks.section import Curve, Row, Section
from chaos.history.events import Event
from chaos.history.writer import EventWriter
from chaos.opensearch.rest import UNREADABLE

__all__ = [
    "UNREADABLE",
    "Begins",
    "ClusterSight",
    "Context",
    "Curve",
    "Ends",
    "Event",
    "EventWriter",
    "Guard",
    "Instrument",
    "Observer",
    "ProcessWatch",
    "ProcessorSets",
    "Row",
    "Section",
    "Steering",
    "Traffic",
    "Trial",
]
