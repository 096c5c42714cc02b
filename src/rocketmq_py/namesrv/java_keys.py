"""Every key that a namesrv.conf of Apache RocketMQ 5.5.0 may contain, with Java's default.

A key that is listed here but is no field of ``NamesrvConfig`` is accepted and has no effect.
"""

from __future__ import annotations

from rocketmq_py.core.java_config import parse_defaults

JAVA_DEFAULTS = parse_defaults("""
    bindAddress=0.0.0.0 clientRequestThreadPoolNums=8 clientRequestThreadPoolQueueCapacity=50000 clusterTest=false
    configBlackList=configBlackList;configStorePath;kvConfigPath configStorePath= defaultThreadPoolNums=16
    defaultThreadPoolQueueCapacity=10000 deleteTopicWithBrokerRegistration=false enableAllTopicList=true
    enableControllerInNamesrv=false enableShutdownGracefully=false enableTopicList=true kvConfigPath= listenPort=9876
    needWaitForService=false notifyMinBrokerIdChanged=false orderMessageEnable=false productEnvName=center
    returnOrderTopicConfigToBroker=true rocketmqHome= scanNotActiveBrokerInterval=5000 serverAsyncSemaphoreValue=64
    serverCallbackExecutorThreads=0 serverChannelMaxIdleTimeSeconds=120 serverNettyWorkerGroupEnable=true
    serverOnewaySemaphoreValue=256 serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3
    serverSocketBacklog=1024 serverSocketRcvBufSize=0 serverSocketSndBufSize=0 serverWorkerThreads=8
    shutdownWaitTimeSeconds=30 supportActingMaster=false unRegisterBrokerQueueCapacity=3000
    useEpollNativeSelector=false waitSecondsForService=45 writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
""")

CONTROLLER_KEYS = frozenset(
    parse_defaults("""
    controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId controllerRequestThreadPoolQueueCapacity
    controllerStorePath controllerThreadPoolNums controllerType electMasterMaxRetryCount enableElectUncleanMaster
    jraftConfig mappedFileSize metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
    metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader metricsGrpcExporterTarget
    metricsInDelta metricsLabel metricsPromExporterHost metricsPromExporterPort notifyBrokerRoleChanged
    processReadEvent scanInactiveMasterInterval
""")
)
"""Keys that Java's controller reads from the same file. They have no effect: this name server is no controller."""
