"""Describes an error of a handler for the client: its code and message, within a size limit."""

from __future__ import annotations

from typing import Any

from .._json import encode_json
from .._protocol import LIMIT_SERVICE_REPORT_BYTES
from ..errors import CudaIpcError

_CODE_LENGTH_MAX = 64


def failure_report(error: BaseException) -> dict[str, str]:
    code = error.code if isinstance(error, CudaIpcError) else type(error).__name__
    try:
        message = error.message if isinstance(error, CudaIpcError) else str(error)
    except Exception as wrong:
        # The client must hear of the failure, even if the handler's error cannot say it.
        message = f"its text cannot be had: str() of it raised {type(wrong).__name__}"
    # A lone surrogate has no UTF-8.
    message = message.encode("utf-8", "replace").decode()
    report = {"code": code[:_CODE_LENGTH_MAX], "message": message}
    while len(encode_json(report)) > LIMIT_SERVICE_REPORT_BYTES:
        report["message"] = report["message"][: len(report["message"]) // 2] + "..."
    return report


def failure_text(report: Any) -> str:
    """The report in one sentence, whatever the worker sent."""
    if not isinstance(report, dict):
        return "an error that its worker did not describe"
    return f"{report.get('code')}: {report.get('message')}"
