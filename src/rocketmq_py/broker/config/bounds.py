"""Ranges of the numbers in a broker.conf. A Java broker accepts any number and fails later."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.core.queue_limits import MAX_QUEUES
from rocketmq_py.errors import shortened

LARGEST_INT = 2**31 - 1
LARGEST_LONG = 2**63 - 1

_LEAST = {
    "defaultPopShareQueueNum": -1,
    "grpcServerPort": -1,
    "healthPort": -1,
    "metricsOtelCardinalityLimit": 1,
    **dict.fromkeys(
        ("brokerHeartbeatInterval", "channelExpiredTimeout", "filterDataCleanTimeSpan", "flushConsumerOffsetInterval",
         "flushDelayOffsetInterval", "loadBalancePollNameServerInterval", "maxFilterMessageSize", "maxMessageSize",
         "maxMsgsNumBatch", "maxOpenQueueFiles", "maxTransferBytesOnMessageInDisk", "maxTransferBytesOnMessageInMemory",
         "maxTransferCountOnMessageInDisk", "maxTransferCountOnMessageInMemory", "registerBrokerTimeoutMills",
         "registerNameServerPeriod", "sendHeartbeatTimeoutMillis", "serverChannelMaxIdleTimeSeconds",
         "reviveQueueNum", "syncBrokerMemberGroupPeriod", "transactionOpMsgMaxSize"),
        1,
    ),
}  # fmt: skip
_MOST = {
    "brokerPermission": 7,
    **dict.fromkeys(("grpcServerPort", "healthPort", "metricsPromExporterPort"), 65535),
    **dict.fromkeys(("defaultTopicQueueNums", "reviveQueueNum"), MAX_QUEUES),
    **dict.fromkeys(
        ("accessMessageInMemoryMaxRatio", "diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio",
         "diskSpaceWarningLevelRatio", "popFromRetryProbability", "popFromRetryProbabilityForPriority"),
        100,
    ),
    **dict.fromkeys(
        ("maxMessageSize", "maxMsgsNumBatch", "maxFilterMessageSize", "serverChannelMaxIdleTimeSeconds",
         "fileReservedTime", "shutdownWaitTimeSeconds", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue",
         "mappedFileSizeTimerLog", "maxHashSlotNum", "maxIndexNum"),
        LARGEST_INT,
    ),
}  # fmt: skip


def range_faults(settings: Mapping[str, str], kinds: Mapping[str, type]) -> list[str]:
    """Return an error message for each integer that is out of range.

    :param settings: values by key; each integer must be well-formed.
    :param kinds: the type of each key's value; keys that are missing here are not checked.
    """
    faults = []
    for key, text in settings.items():
        if kinds.get(key) is not int:
            continue
        least, most = _LEAST.get(key, 0), _MOST.get(key, LARGEST_LONG)
        digits = text.strip().lstrip("+-")
        is_short = len(digits) <= len(str(LARGEST_LONG))  # int() of a long text takes quadratic time
        if not is_short or not least <= int(text) <= most:
            faults.append(f"{key} is {shortened(text)}: {_expected(least, most)} is expected")
    return faults


def _expected(least: int, most: int) -> str:
    return f"at least {least}" if most == LARGEST_LONG else f"{least} to {most}"
