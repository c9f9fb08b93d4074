"""Whether this code runs inside a durable workflow, whose engine must see a run as it is.

Such a workflow is executed again from its journal, and refuses what a run is given from outside. Only engines
that the application has imported are asked.
"""

from __future__ import annotations

import sys
from typing import Any


def in_durable_workflow() -> bool:
    """Whether a workflow of Temporal or DBOS, or a flow of Prefect, is running here."""
    return _in_temporal() or _in_dbos() or _in_prefect()


def _in_temporal() -> bool:
    workflow: Any = sys.modules.get("temporalio.workflow")
    return workflow is not None and bool(workflow.in_workflow())


def _in_dbos() -> bool:
    dbos: Any = sys.modules.get("dbos")
    return dbos is not None and dbos.DBOS.workflow_id is not None and dbos.DBOS.step_id is None


def _in_prefect() -> bool:
    context: Any = sys.modules.get("prefect.context")
    return context is not None and context.FlowRunContext.get() is not None
