"""Commands of mqadmin for both sides, in order, and omitted sub-commands with the reason.

``{broker}`` is the broker's address, ``{work}`` a directory of the side, ``{uniq}`` and ``{offset}`` the two ids of the
first message of the topic ``orders``. Prepared are the topic ``orders`` with 15 messages in two queues, and the group
``readers`` with one member that has consumed them.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A command line without ``-n``.

    :param hide: what one side measures or chooses for itself, as a regular expression.
    :param in_order: False when the lines come in the order of a Java hash table.
    """

    line: str
    hide: str = r"(?!)"
    in_order: bool = True

    @property
    def command(self) -> str:
        return self.line.split()[0]


MEASURED = (
    r"(?m)(Tps|TimeMax|putLatency\d+|putMessageDistributeTime|timer\w+Behind|HowManyDataToFlush|DiskRatio\S*) *: .*"
)
TIMER_LAG = r"\b\d+-\d+(?=\()"
"""How far the timer wheel is behind, in seconds and messages: a Java broker lags a second as soon as it has to wait."""
PLACES = (
    r"(?m)^(bindAddress|listenPort|haListenPort|rocketmqHome|kvConfigPath|configStorePath|storePath\w+|namesrvAddr"
    r"|brokerIP\d|\w+ThreadPoolNums|\w+Threads|\w+ThreadNum|serverSelectorThreads"
    r"|mappedFileSizeCommitLog|transactionMetricFlushInterval) += .*"
)
"""Places and numbers of threads; a key without effect here is shown with Java's default, whatever a file says."""

PREPARATION = (
    Case("updateTopic -b {broker} -t orders -r 2 -w 2"),
    Case("updateTopic -c DefaultCluster -t other -r 3 -w 3 -o true -a +message.type=FIFO"),
    Case("updateTopic -b {broker} -t no/topic -r 1 -w 1"),
    Case("updateTopic -b {broker} -t TBW102 -r 4 -w 4"),
    Case("updateTopic -b {broker} -t wrong -a +foo=bar"),
    Case("updateTopic -b {broker} -t wrong -a message.type=FIFO"),
    Case("updateTopic -b {broker} -t wrong -a message.type"),
    Case("updateTopic -b {broker} -t wrong -a +message.type=WHAT"),
    Case("updateTopic -b {broker} -t wrong -a +message.type=MIXED"),
    Case("updateTopic -b {broker} -t wrong -a +reserve.time=-2"),
    Case("updateTopic -b {broker} -t other -a +queue.type=SimpleCQ"),
    Case("updateTopicList -b {broker} -f {work}/topics.json"),
    Case("updateSubGroup -b {broker} -g readers -r 3"),
    Case("updateSubGroup -b {broker} -g clones"),
    Case("updateSubGroup -c DefaultCluster -g tuned -s false -m false -d false -q 2 -r 5 -i 0 -w 0 -a true"),
    Case("updateSubGroup -c DefaultCluster -g no/group"),
    Case("updateSubGroupList -b {broker} -f {work}/groups.json"),
)

CASES = (
    # First: after a minute without messages both brokers count none for a topic.
    Case("statsAll", in_order=False),
    Case("statsAll -a"),
    Case("statsAll -t orders"),
    Case("topicList", in_order=False),
    Case("topicList -c", in_order=False),
    Case("topicRoute -t orders"),
    Case("topicRoute -t orders -l"),
    Case("topicRoute -t nothing"),
    Case("topicStatus -t orders"),
    Case("topicStatus -t nothing"),
    Case("topicClusterList -t orders"),
    Case("brokerStatus -b {broker}", MEASURED),
    Case("brokerStatus -c DefaultCluster", MEASURED),
    Case("queryMsgById -i {offset} -t orders"),
    Case("queryMsgByKey -t orders -k k-3"),
    Case("queryMsgByKey -t orders -k nothing"),
    Case("queryMsgByUniqueKey -t orders -i {uniq}"),
    Case("queryMsgByUniqueKey -t orders -i {uniq} -a"),
    # Who is connected is asked before commands that consume: a Java broker may hold a client of theirs that has ended
    # for two minutes, since it registers a heartbeat that it reads while the connection closes.
    Case("producerConnection -g CLIENT_INNER_PRODUCER -t orders"),
    Case("producerConnection -g nobody -t orders"),
    Case("producer -b {broker}"),
    Case("consumerConnection -g readers", in_order=False),
    Case("consumerConnection -g nobody"),
    Case("consumerProgress", r"(?<=CLUSTERING) +\d+"),
    Case("consumerProgress -g readers"),
    Case("consumerProgress -g readers -t orders"),
    Case("consumerProgress -g readers -t orders -s true"),
    Case("consumerProgress -g nobody"),
    Case("queryMsgByOffset -t orders -b broker-a -i 0 -o 2"),
    Case("queryMsgByOffset -t orders -b broker-a -i 0 -o 200"),
    Case("queryMsgByOffset -t orders -b broker-a -i 9 -o 0"),
    Case("queryMsgTraceById -i {uniq} -t RMQ_SYS_TRACE_TOPIC"),
    Case("printMsg -t orders"),
    Case("printMsgByQueue -t orders -a broker-a -i 0 -p true -d true -f true"),
    Case("brokerConsumeStats -b {broker} -o false -l 0 -t 5000", in_order=False),
    Case("brokerConsumeStats -b {broker} -o true -l 0 -t 5000"),
    Case("consumerStatus -g readers"),
    Case("cloneGroupOffset -s readers -d clones -t orders -o false"),
    Case("cloneGroupOffset -s readers -d nobody -t orders -o true"),
    Case("cloneGroupOffset -s readers -d clones -t nothing -o true"),
    Case("clusterList", TIMER_LAG),
    Case("clusterList -m"),
    Case("sendMsgStatus -b broker-a -c 3 -s 10"),
    Case("checkMsgSendRT -t orders -a 2 -s 10", r"(?m)^broker-a .*"),
    Case("allocateMQ -t orders -i 127.0.0.1,127.0.0.2"),
    Case("queryCq -t orders -q 0 -i 0 -c 3 -b {broker}"),
    Case("queryCq -t orders -q 0 -i 2 -c 3 -b {broker} -g readers"),
    Case("queryCq -t orders -q 0 -i 2 -c 3 -b {broker} -g nobody"),
    Case("queryCq -t orders -q 0 -i 99 -c 3 -b {broker}"),
    Case("queryCq -t orders -q 7 -i 2 -c 3 -b {broker}"),
    Case("sendMessage -t other -p hello -k kk -c TAG -b broker-a -i 1"),
    Case("consumeMessage -t other -g peeker -b broker-a -i 1 -o 0 -c 1"),
    Case("updateKvConfig -s NS -k key -v value"),
    Case("deleteKvConfig -s NS -k key"),
    Case("updateOrderConf -t other -m put -v broker-a:3"),
    Case("updateOrderConf -t other -m get"),
    Case("topicRoute -t other"),
    Case("updateOrderConf -t other -m delete"),
    Case("updateOrderConf -t other -m get"),
    Case("wipeWritePerm -b broker-a", r"OK, \d+"),
    Case("topicRoute -t orders"),
    Case("addWritePerm -b broker-a", r"OK, \d+"),
    Case("topicRoute -t orders"),
    Case("cleanExpiredCQ -b {broker}"),
    Case("cleanExpiredCQ -c DefaultCluster"),
    Case("deleteExpiredCommitLog -b {broker}"),
    Case("cleanUnusedTopic -b {broker}"),
    Case("cleanUnusedTopic -c DefaultCluster"),
    Case("getNamesrvConfig", PLACES, in_order=False),
    Case("updateNamesrvConfig -k scanNotActiveBrokerInterval -v 6000"),
    Case("updateNamesrvConfig -k kvConfigPath -v /tmp/x"),
    Case("getNamesrvConfig", PLACES, in_order=False),
    Case("getBrokerConfig -b {broker}", PLACES, in_order=False),
    Case("updateBrokerConfig -b {broker} -k fileReservedTime -v 48"),
    Case("updateBrokerConfig -c DefaultCluster -k sendMessageThreadPoolNums -v 7"),
    Case("updateBrokerConfig -b {broker} -k brokerConfigPath -v /tmp/x"),
    Case("getBrokerConfig -c DefaultCluster", PLACES, in_order=False),
    Case("updateBrokerConfig -b {broker} -k brokerPermission -v 4"),
    Case("topicRoute -t list-2"),
    Case("updateBrokerConfig -b {broker} -k brokerPermission -v 6"),
    Case("topicRoute -t list-2"),
    Case("getConsumerConfig -g readers"),
    Case("getConsumerConfig -g tuned"),
    Case("getConsumerConfig -g list-g2"),
    Case("getConsumerConfig -g nobody"),
    Case("haStatus -b {broker}"),
    Case("haStatus -c DefaultCluster"),
    Case("resetMasterFlushOffset -b {broker} -o 0"),
    Case("updateTopicPerm -t list-1 -b {broker} -p 4"),
    Case("sendMessage -t list-1 -p hello"),
    Case("updateTopicPerm -t list-1 -b {broker} -p 4"),
    Case("updateTopicPerm -t list-1 -c DefaultCluster -p 6"),
    Case("exportMetadata -c DefaultCluster -f {work}/topics -t"),
    Case("exportMetadata -c DefaultCluster -f {work}/groups -g"),
    Case("exportMetadata -c DefaultCluster -f {work}/all"),
    Case("exportConfigs -c DefaultCluster -f {work}/configs"),
    Case("exportMetrics -c DefaultCluster -f {work}/metrics"),
    Case("resetOffsetByTime -g readers -t orders -s -1"),
    Case("resetOffsetByTime -g readers -t orders -s 0"),
    Case("resetOffsetByTime -g readers -t orders -s now -b {broker} -q 0 -o 3"),
    Case("resetOffsetByTime -g readers -t orders -s now -b {broker} -q 0 -o 99"),
    Case("resetOffsetByTime -g nobody -t orders -s -1"),
    Case("skipAccumulatedMessage -g readers -t orders"),
    Case("deleteSubGroup -b {broker} -g list-g1"),
    Case("deleteSubGroup -c DefaultCluster -g list-g2 -r true"),
    Case("deleteTopic -c DefaultCluster -t list-1"),
    Case("deleteTopic -c DefaultCluster -t list-1"),
    Case("deleteTopic -c DefaultCluster -t TBW102"),
    Case("topicRoute -t list-1"),
    Case("topicList", in_order=False),
)

EXPORTED = ("topics/topic.json", "groups/subscriptionGroup.json", "all/metadata.json", "configs/configs.json")
"""Files the export commands write."""


class Different(NamedTuple):
    """A command on purpose answered otherwise: what Java says, and what we say."""

    line: str
    java: str
    ours: str


DIFFERENT = (
    Different(
        "updateBrokerConfig -b {broker} -k fileReservedTime -v abc",
        "update broker config success",
        "CODE: 29  DESC: fileReservedTime is 'abc': a whole number is expected",
    ),
    Different(
        "updateBrokerConfig -b {broker} -k fileReservedTme -v 1",
        "update broker config success",
        "CODE: 29  DESC: unknown setting 'fileReservedTme'; did you mean 'fileReservedTime'?",
    ),
    Different(
        "updateTopic -b {broker} -t lite -a +message.type=LITE",
        "create topic to .* success",
        "message.type=LITE is not supported by this broker",
    ),
)
"""A Java broker keeps the wrong value of a setting without using it, an unknown setting nowhere; both are a success."""

_CONTROLLER = "controller mode is not supported"
_CONTAINER = "broker containers are not supported"
_STATIC = "static topics have tests of their own"
_COLD = "cold data control is not supported"
_ROCKSDB = "the RocksDB store is not supported"
_LITE = "lite topics (5.5) are not supported"
_ENDLESS = "never ends by itself; its requests are those of other commands"
_ACCESS = "access control has tests of its own"
_POP = "POP has tests of its own"

LEFT_OUT = {
    "addBroker": _CONTAINER, "removeBroker": _CONTAINER,
    "getSyncStateSet": _CONTROLLER, "getBrokerEpoch": _CONTROLLER, "getControllerMetaData": _CONTROLLER,
    "getControllerConfig": _CONTROLLER, "updateControllerConfig": _CONTROLLER, "electMaster": _CONTROLLER,
    "cleanBrokerMetadata": _CONTROLLER,
    "updateStaticTopic": _STATIC, "remappingStaticTopic": _STATIC,
    "getColdDataFlowCtrInfo": _COLD, "updateColdDataFlowCtrGroupConfig": _COLD,
    "removeColdDataFlowCtrGroupConfig": _COLD, "setCommitLogReadAheadMode": _COLD,
    "exportMetadataInRocksDB": _ROCKSDB, "rocksDBConfigToJson": _ROCKSDB, "checkRocksdbCqWriteProgress": _ROCKSDB,
    "switchTimerEngine": _ROCKSDB, "exportPopRecord": _ROCKSDB,
    "dumpCompactionLog": "compacted topics are not supported, and it asks no broker",
    "getBrokerLiteInfo": _LITE, "getParentTopicInfo": _LITE, "getLiteTopicInfo": _LITE, "getLiteClientInfo": _LITE,
    "getLiteGroupInfo": _LITE, "triggerLiteDispatch": _LITE,
    "startMonitoring": _ENDLESS, "clusterRT": _ENDLESS,
    "createUser": _ACCESS, "updateUser": _ACCESS, "deleteUser": _ACCESS, "getUser": _ACCESS, "listUser": _ACCESS,
    "copyUser": _ACCESS, "createAcl": _ACCESS, "updateAcl": _ACCESS, "deleteAcl": _ACCESS, "getAcl": _ACCESS,
    "listAcl": _ACCESS, "copyAcl": _ACCESS,
    "setConsumeMode": _POP,
}  # fmt: skip
