"""Every key that a broker.conf of Apache RocketMQ may contain (5.5.0, and those that only 5.3 has), with its default.

A key that is listed here but is no setting of this broker is accepted and has no effect, so that a broker.conf works
unchanged; a key that is neither is refused as a typing mistake. Where Java derives a default from its machine, numbers
of threads are those of a machine with few cores, and paths are empty.
"""

from __future__ import annotations

from rocketmq_py.core.java_config import parse_defaults

_DEFAULTS = """
    accessMessageInMemoryHotRatio=26 accessMessageInMemoryMaxRatio=40 accountStatsEnable=true
    accountStatsPrintZeroValues=true ackMessageThreadPoolNums=16 ackThreadPoolQueueCapacity=100000 aclEnable=false
    adminBrokerThreadPoolNums=16 adminBrokerThreadPoolQueueCapacity=10000 allAckInSyncStateSet=false
    allowRecallWhenBrokerNotWriteable=true appendAckAsync=false appendCkAsync=false appendTopicForTimerDeleteKey=false
    asyncLearner=false asyncSendEnable=true autoCreateSubscriptionGroup=true autoCreateTopicEnable=true
    autoDeleteUnusedStats=true autoMessageVersionOnTopicLen=true batchDispatchRequestThreadPoolNums=16
    bindAddress=0.0.0.0 bitMapLengthConsumeQueueExt=112 bottomMostCompressionTypeForConsumeQueueStore=zstd
    broadcastOffsetExpireMaxSecond=300 broadcastOffsetExpireSecond=120 brokerClusterName=DefaultCluster
    brokerConfigPath= brokerElectionPriority=2147483647 brokerFastFailureEnable=true brokerHeartbeatInterval=1000
    brokerIP1= brokerIP2= brokerId=0 brokerName=broker-a brokerNotActiveTimeoutMillis=10000 brokerPermission=6
    brokerRole=ASYNC_MASTER brokerTopicEnable=true cgColdReadThreshold=3145728 channelExpiredTimeout=120000
    channelNotActiveInterval=60000 checkCRCOnRecover=true checkCommitLogOffsetOnRecover=false
    checkSyncStateSetPeriod=5000 cleanFileForciblyEnable=true cleanOfflineBrokerInterval=30000
    cleanResourceInterval=10000 cleanRocksDBDirtyCQIntervalMin=60 cleanSwapedMapInterval=300000
    clearRetryTopicWhenDeleteTopic=true clientAsyncSemaphoreValue=65535 clientCallbackExecutorThreads=2
    clientChannelMaxIdleTimeSeconds=120 clientCloseSocketIfTimeout=true clientManageThreadPoolNums=32
    clientManagerThreadPoolQueueCapacity=1000000 clientOnewaySemaphoreValue=65535
    clientPooledByteBufAllocatorEnable=false clientSocketRcvBufSize=0 clientSocketSndBufSize=0 clientWorkerThreads=4
    clusterTopicEnable=true coldCtrStrategyEnable=false coldDataFlowControlEnable=false coldDataScanEnable=false
    combineAssignOffsetCQType=default combineCQEnableCheckSelf=false combineCQLoadingCQTypes=default;defaultRocksDB
    combineCQMaxExtraSearchCommitLogFiles=3 combineCQPreferCQType=default combineCQUseRocksdbForLmq=false
    commercialBaseCount=1 commercialSizePerMsg=4096 commitCommitLogLeastPages=4 commitCommitLogThoroughInterval=200
    commitIntervalCommitLog=200 commitLogForceSwapMapInterval=43200000 commitLogRecoverMaxNum=10
    commitLogSwapMapInterval=3600000 commitLogSwapMapReserveFileNum=100 compactionCqMappedFileSize=10485760
    compactionMappedFileSize=104857600 compactionScheduleInternal=900000 compactionThreadNum=6
    compatibleWithOldNameSrv=true compressedRegister=false configBlackList=configBlackList;brokerConfigPath
    configManagerVersion=v1 connectTimeoutMillis=3000 consumerFallbehindThreshold=17179869184
    consumerManageThreadPoolNums=32 consumerManagerThreadPoolQueueCapacity=1000000 consumerOffsetUpdateVersionStep=500
    controllerAddr= controllerHeartBeatTimeoutMills=10000 correctLogicMinOffsetForceInterval=300000
    correctLogicMinOffsetSleepInterval=1 dLegerGroup= dLegerPeers= dLegerSelfId= dataReadAheadEnable=true
    debugLockEnable=false defaultMessageRequestMode=PULL defaultPopShareQueueNum=-1 defaultQueryMaxNum=32
    defaultTopicQueueNums=8 delayOffsetUpdateVersionStep=200 deleteCommitLogFilesInterval=100
    deleteConsumeQueueFilesInterval=100 deleteFileBatchMax=10 deleteWhen=04 destroyMapedFileIntervalForcibly=120000
    disableCallbackExecutor=false disableConsumeIfConsumerReadSlowly=false disableNettyWorkerGroup=false
    disappearTimeAfterStart=-1 diskFallRecorded=true diskMaxUsedSpaceRatio=75 diskSpaceCleanForciblyRatio=85
    diskSpaceWarningLevelRatio=90 dispatchCqCacheNum=4096 dispatchCqThreads=10 dispatchFromSenderThread=false
    duplicationEnable=false enableAcceleratedRecovery=false enableAsyncReput=true enableAutoInSyncReplicas=false
    enableBatchPush=false enableBroadcastOffsetStore=true enableBuildConsumeQueueConcurrently=false
    enableCalcFilterBitMap=false enableCleanExpiredOffset=false enableCompaction=true enableConnectionMetrics=true
    enableConsumeQueueExt=false enableControllerMode=false enableCreateSysGroup=true enableDLegerCommitLog=false
    enableDetailStat=true enableFastChannelEventProcess=false enableLagAndDlqMetrics=true enableLiteEventMode=true
    enableLitePopLog=false enableLmq=false enableLmqQuota=false enableLmqStats=false
    enableLogConsumeQueueRepeatedlyBuildWhenRecover=false enableMessageStoreMetrics=true enableMixedMessageType=false
    enableMultiDispatch=false enableNetWorkFlowControl=false enableNotifyAfterPopOrderLockRelease=true
    enableNotifyBeforePopCalculateLag=true enablePopBatchAck=false enablePopBufferMerge=false enablePopLog=false
    enablePopMessageThreshold=false enablePopMetrics=true enablePropertyFilter=false enableReconnectForGoAway=true
    enableRegisterProducer=true enableRemoteEscape=false enableRemotingMetrics=true enableRequestMetrics=true
    enableRetryTopicV2=false enableRocksDBLog=false enableRunningFlagsInFlush=false enableScheduleAsyncDeliver=false
    enableScheduleMessageStats=true enableShutdownGracefully=false enableSingleTopicRegister=false
    enableSkipLongAwaitingAck=false enableSlaveActingMaster=false enableSplitMetadata=true
    enableSplitRegistration=false enableStatsMetrics=true enableTransactionMetrics=true enabledAppendPropCRC=false
    endTransactionPoolQueueCapacity=100000 endTransactionThreadPoolNums=12 estimateAccumulation=true
    expectConsumerNumUseFilter=32 fastFailIfNoBufferInStorePool=false fetchControllerAddrByDnsLookup=false
    fetchNameSrvAddrByDnsLookup=false fetchNamesrvAddrByAddressServer=false fetchNamesrvAddrInterval=10000
    fileReservedTime=72 filterDataCleanTimeSpan=86400000 filterSupportRetry=false flushCommitLogLeastPages=4
    flushCommitLogThoroughInterval=10000 flushCommitLogTimed=true flushConsumeQueueLeastPages=2
    flushConsumeQueueThoroughInterval=60000 flushConsumerOffsetHistoryInterval=60000 flushConsumerOffsetInterval=5000
    flushDelayOffsetInterval=10000 flushDiskType=ASYNC_FLUSH flushIntervalCommitLog=500 flushIntervalConsumeQueue=1000
    flushLeastPagesWhenWarmMapedFile=4096 forceRegister=true forceVerifyPropCRC=false forwardTimeout=3000
    globalColdReadThreshold=104857600 haFlowControlEnable=false haHousekeepingInterval=20000 haListenPort=10912
    haMasterAddress= haMaxGapNotInSync=268435456 haMaxTimeSlaveNotCatchup=15000 haSendHeartbeatInterval=5000
    haTransferBatchSize=32768 heartbeatThreadPoolNums=2 heartbeatThreadPoolQueueCapacity=50000 highSpeedMode=false
    inSyncReplicas=1 indexFileReadEnable=true indexFileWriteEnable=true indexRocksDBEnable=false
    initPopOffsetByCheckMsgInMem=true isBrokerContainer=false isInBrokerContainer=false isScanAvailableNameSrv=true
    isolateLogEnable=false iteratorWhenUseRocksdbConsumeQueue=true listenPort=10911 liteEventCheckInterval=10000
    liteEventFullDispatchDelayTime=10000 liteEventFullDispatchDelayTimeForWildcardGroup=10000
    liteLagCountMetricsEnable=false liteLagLatencyCollectEnable=false liteLagLatencyMetricsEnable=false
    liteLagLatencyTopK=50 litePullMessageEnable=true litePullMessageThreadPoolNums=20
    litePullThreadPoolQueueCapacity=100000 liteSubscriptionCheckInterval=120000
    liteSubscriptionCheckTimeoutMills=180000 liteTtlCheckInterval=120000 loadBalancePollNameServerInterval=30000
    loadBalanceProcessorThreadPoolNums=32 loadBalanceThreadPoolQueueCapacity=100000 lockInStrictMode=false
    logicQueueForceSwapMapInterval=43200000 logicQueueSwapMapInterval=3600000 logicQueueSwapMapReserveFileNum=20
    logicalDiskSpaceCleanForciblyThreshold=0.8 longPollingEnable=true mappedFileSizeCommitLog=1073741824
    mappedFileSizeConsumeQueue=6000000 mappedFileSizeConsumeQueueExt=50331648 mappedFileSizeTimerLog=104857600
    mappedFileSwapEnable=true mapperFileSizeBatchConsumeQueue=13800000 maxAsyncPutMessageRequests=5000
    maxBatchDeleteFilesNum=50 maxChecksumRange=1073741824 maxClientEventCount=100 maxConsumeQueueScan=20000
    maxErrorRateOfBloomFilter=20 maxFilterMessageSize=16000 maxHaTransferByteInSecond=104857600 maxHashSlotNum=5000000
    maxIndexNum=20000000 maxLiteSubscriptionCount=100000 maxLmqConsumeQueueNum=20000
    maxMessageFilterNumForNotification=64 maxMessageSize=4194304 maxMsgsNumBatch=64 maxOffsetMapSize=104857600
    maxPopPollingSize=100000 maxReconnectIntervalTimeSeconds=60 maxRecoveryCommitlogFiles=30
    maxRocksDBIndexQueryDays=7 maxSlaveResendLength=268435456 maxStatsIdleTimeInMinutes=-1 maxTopicLength=127
    maxTransferBytesOnMessageInDisk=65536 maxTransferBytesOnMessageInMemory=262144 maxTransferCountOnMessageInDisk=8
    maxTransferCountOnMessageInMemory=32 memTableFlushIntervalMs=3600000 messageIndexEnable=true
    messageIndexSafe=false messageStorePlugIn= metricGrpcExporterIntervalInMills=60000
    metricGrpcExporterTimeOutInMills=3000 metricLoggingExporterIntervalInMills=10000
    metricsExportBatchMaxDataPoints=1000 metricsExporterType=DISABLE metricsGrpcExporterHeader=
    metricsGrpcExporterTarget= metricsInDelta=false metricsLabel= metricsOtelCardinalityLimit=50000
    metricsPromExporterHost= metricsPromExporterPort=5557 minInSyncReplicas=1 minLiteTTl=900000
    msgTraceTopicName=RMQ_SYS_TRACE_TOPIC namesrvAddr= notifyConsumerIdsChangedEnable=true offsetCheckInSlave=false
    osPageCacheBusyTimeOutMills=1000 persistConsumerOffsetIncrementally=false popCkMaxBufferSize=200000
    popCkOffsetMaxQueueSize=20000 popCkStayBufferTime=10000 popCkStayBufferTimeOut=3000 popConsumerFSServiceInit=true
    popConsumerKVServiceEnable=false popConsumerKVServiceInit=false popConsumerKVServiceLog=false
    popFromRetryProbability=20 popFromRetryProbabilityForPriority=0 popInflightMessageThreshold=10000
    popLongPollingForceNotifyInterval=800 popPollingMapExpireTimeSeconds=600 popPollingMapSize=100000
    popPollingSize=1024 popResponseReturnActualRetryTopic=false popReviveConcurrency=32 popReviveMaxAttemptTimes=16
    popReviveMaxReturnSizePerRead=16384 popReviveSkipIfGroupAbsent=true preferredLeaderId=-1 printChannelGroups=false
    printChannelGroupsMinNum=5 priorityOrderAsc=true processReplyMessageThreadPoolNums=20 pullBatchMaxMessageCount=160
    pullMessageThreadPoolNums=20 pullThreadPoolQueueCapacity=100000 putConsumeQueueDataByFileChannel=true
    putMessageFutureThreadPoolNums=2 putMessageTimeout=8000 putMsgIndexHightWater=600000
    putThreadPoolQueueCapacity=10000 queryMessageThreadPoolNums=10 queryThreadPoolQueueCapacity=20000
    readOnlyCommitLogStorePaths= readUnCommitted=false realTimeNotifyConsumerChange=true
    realTimePersistRocksDBConfig=true recallMessageEnable=false recheckReputOffsetFromCq=false
    recoverConcurrently=false recoverThreadPoolNums=32 redeleteHangedFileInterval=120000 regionId=DefaultRegion
    registerBrokerTimeoutMills=24000 registerNameServerPeriod=30000 rejectPullConsumerEnable=false
    rejectTransactionMessage=false replicasPerDiskPartition=1 replyThreadPoolQueueCapacity=10000
    retrieveMessageFromPopRetryTopicV1=true reviveAckWaitMs=180000 reviveInterval=1000 reviveMaxSlow=3
    reviveQueueNum=8 reviveScanTime=10000 rocketmqHome= rocksdbCQDoubleWriteEnable=false rocksdbCompressionType=lz4
    rocksdbFlushWalFrequency=1024 rocksdbWalFileRollingThreshold=1073741824 sampleCountThreshold=5000 sampleSteps=32
    scheduleAsyncDeliverMaxPendingLimit=2000 scheduleAsyncDeliverMaxResendNum2Blocked=3 searchBcqByCacheEnable=true
    sendHeartbeatTimeoutMillis=1000 sendMessageThreadPoolNums=2 sendThreadPoolQueueCapacity=10000
    serverAsyncSemaphoreValue=64 serverCallbackExecutorThreads=0 serverChannelMaxIdleTimeSeconds=120
    serverLoadBalancerEnable=true serverNettyWorkerGroupEnable=true serverOnewaySemaphoreValue=256
    serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3 serverSocketBacklog=1024 serverSocketRcvBufSize=0
    serverSocketSndBufSize=0 serverWorkerThreads=8 sharedByteBufferNum=16 shortPollingTimeMills=1000
    shutdownWaitTimeSeconds=30 skipPreOnline=false skipWhenCKRePutReachMaxTimes=false slaveReadEnable=false
    slaveTimeout=3000 socksProxyConfig={} spinLockCollisionRetreatOptimalDegree=1000 splitMetadataSize=2000
    splitRegistrationSize=800 startAcceptSendRequestTimeStamp=0 statRocksDBCQIntervalSec=10 storePathBrokerIdentity=
    storePathCommitLog= storePathDLedgerCommitLog= storePathEpochFile= storePathRootDir= storeReplyMessageEnable=true
    storeType=default subscriptionExpiredTimeout=600000 syncBrokerMemberGroupPeriod=1000 syncBrokerMetadataPeriod=5000
    syncControllerMetadataPeriod=10000 syncFlushTimeout=5000 syncFromLastFile=false
    syncMasterFlushOffsetWhenStartup=false timerCheckMetricsWhen=05 timerColdDataCheckIntervalMs=60000
    timerCongestNumEachSlot=2147483647 timerEnableCheckMetrics=true timerEnableDisruptor=false
    timerEnableRetryUntilSuccess=false timerFlushIntervalMs=1000 timerGetMessageThreadNum=3
    timerInterceptDelayLevel=false timerMaxDelaySec=259200 timerMetricSmallThreshold=1000000 timerPrecisionMs=1000
    timerProgressLogIntervalMs=10000 timerPutMessageThreadNum=3 timerRecallToTimeWheelEnable=true
    timerRecallToTimelineEnable=true timerReputServiceCorePoolSize=6 timerReputServiceMaxPoolSize=6
    timerReputServiceQueueCapacity=10000 timerRocksDBEnable=false timerRocksDBPrecisionMs=1000
    timerRocksDBRollIntervalHours=1 timerRocksDBRollMaxTps=8000.0 timerRocksDBRollRangeHours=2
    timerRocksDBStopScan=false timerRocksDBTimeExpiredMaxTps=200000.0 timerRollWindowSlot=172800
    timerSkipUnknownError=false timerStopDequeue=false timerStopEnqueue=false timerWarmEnable=false
    timerWheelEnable=true timerWheelSnapshotFlush=false timerWheelSnapshotIntervalMs=10000 topicQueueLockNum=32
    totalReplicas=1 traceOn=true traceTopicEnable=false transRocksDBEnable=false transWriteOriginTransHalfEnable=true
    transactionCheckInterval=30000 transactionCheckMax=15 transactionCheckRocksdbCoreThreads=2
    transactionCheckRocksdbMaxThreads=5 transactionCheckRocksdbQueueCapacity=2000 transactionMetricFlushInterval=10000
    transactionOpBatchInterval=3000 transactionOpMsgMaxSize=4096 transactionTimeOut=6000 transferMsgByHeap=true
    transientStorePoolEnable=false transientStorePoolSize=5 travelCqFileNumWhenGetMessage=1
    updateNameServerAddrPeriod=120000 useABSLock=false useEpollNativeSelector=false
    useMessageFilterForNotification=true usePIDColdCtrStrategy=true useReentrantLockWhenPutMessage=true
    useSeparateRetryQueue=false useSeparateStorePathForRocksdbCQ=false useServerSideResetOffset=true
    useSingleRocksDBForAllConfigs=false useStaticSubscription=false useTLS=false
    validateSystemTopicWhenUpdateTopic=true waitTimeMillsInAckQueue=3000 waitTimeMillsInAdminBrokerQueue=5000
    waitTimeMillsInHeartbeatQueue=31000 waitTimeMillsInLitePullQueue=5000 waitTimeMillsInPullQueue=5000
    waitTimeMillsInSendQueue=200 waitTimeMillsInTransactionQueue=3000 wakeCommitWhenPutMessage=true
    wakeFlushWhenPutMessage=false warmMapedFileEnable=false writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
    writeWithoutMmap=false
"""

JAVA_DEFAULTS = {
    **parse_defaults(_DEFAULTS),
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
}

UNSET = frozenset(
    {"brokerConfigPath", "dLegerGroup", "dLegerPeers", "dLegerSelfId", "haMasterAddress", "preferredLeaderId",
     "readOnlyCommitLogStorePaths", "storePathBrokerIdentity", "storePathDLedgerCommitLog", "storePathEpochFile"}
)  # fmt: skip
"""Keys without a default value; they are not shown unless they are set."""

TIERED_STORE_KEYS = frozenset(
    parse_defaults("""
    commitLogRollingInterval commitLogRollingMinimumSize objectStoreAccessKey objectStoreBucket objectStoreEndpoint
    objectStoreSecretKey readAheadCacheEnable readAheadCacheExpireDuration readAheadCacheSizeThresholdRate
    readAheadMessageCountThreshold readAheadMessageSizeThreshold recordGetMessageResult tieredBackendServiceProvider
    tieredMetadataServiceProvider tieredStorageLevel tieredStoreCommitLogMaxSize tieredStoreConsumeQueueMaxSize
    tieredStoreCrcCheckEnable tieredStoreDeleteFileEnable tieredStoreDeleteFileInterval tieredStoreFilePath
    tieredStoreFileReservedTime tieredStoreGroupCommit tieredStoreGroupCommitCount tieredStoreGroupCommitSize
    tieredStoreGroupCommitTimeout tieredStoreIndexFileMaxHashSlotNum tieredStoreIndexFileMaxIndexNum
    tieredStoreMaxGroupCommitCount tieredStoreMaxPendingLimit
""")
)
"""Keys that Java's tiered store reads from the same file. They have no effect: ``messageStorePlugIn`` is refused."""

CONTROLLER_KEYS = frozenset(
    parse_defaults("""
    configStorePath controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId
    controllerRequestThreadPoolQueueCapacity controllerStorePath controllerThreadPoolNums controllerType
    electMasterMaxRetryCount enableElectUncleanMaster jraftConfig mappedFileSize notifyBrokerRoleChanged
    processReadEvent scanInactiveMasterInterval scanNotActiveBrokerInterval
""")
)
"""Keys that Java's controller reads from the same file. They have no effect: ``enableControllerMode`` is refused."""
