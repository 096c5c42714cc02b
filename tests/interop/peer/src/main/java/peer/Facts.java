package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.NamespaceUtil;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;
import org.apache.rocketmq.remoting.protocol.admin.TopicStatsTable;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.remoting.protocol.body.ProcessQueueInfo;
import org.apache.rocketmq.remoting.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.remoting.protocol.header.PullMessageRequestHeader;

/** Prints what the Java libraries compute without any server: hashes, ids, encodings, allocation tables. */
public final class Facts {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "table" -> table();
            case "decode" -> decode();
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void table() throws Exception {
        for (String s : List.of("", "A", "TagA", "k-1", "flights#AA-1", "résumé", "漢字", "😀", "polygenelubricants")) {
            Util.emit(Util.row("type", "hash", "text", s, "hash", s.hashCode()));
        }
        namespaces();
        properties();
        ids();
        allocations();
        headers();
        bodies();
        records();
        batch();
    }

    private static void properties() {
        Map<String, String> plain = new LinkedHashMap<>();
        plain.put("TAGS", "A");
        plain.put("KEYS", "k-1 k-2");
        plain.put("city", "Zürich 漢字 😀");
        plain.put("empty", "");
        String text = MessageDecoder.messageProperties2String(plain);
        Util.emit(Util.row("type", "properties", "map", plain, "encoded", base64(utf8(text)),
            "decoded", MessageDecoder.string2messageProperties(text)));
    }

    private static void namespaces() {
        String[] resources = {
            "", "t", "%RETRY%g", "%DLQ%g", "ns%t", "%RETRY%ns%g", "%DLQ%ns%g", "TBW102", "RMQ_SYS_TRACE_TOPIC",
            "rmq_sys_x", "CID_RMQ_SYS_X", "%RETRY%", "a%b%c", "%t", "t%", "other%t", "%RETRY%%RETRY%g",
            "%DLQ%%RETRY%g", "TOOLS_CONSUMER", "%RETRY%CID_RMQ_SYS_X", "%RETRY%TBW102", "nsx%t", " "
        };
        for (String resource : resources) {
            for (String namespace : new String[] {"", "ns", "MQ_INST_1_2", " "}) {
                Util.emit(Util.row("type", "namespace", "resource", resource, "namespace", namespace,
                    "wrapped", NamespaceUtil.wrapNamespace(namespace, resource),
                    "retry", NamespaceUtil.wrapNamespaceAndRetry(namespace, resource),
                    "without", NamespaceUtil.withoutNamespace(resource, namespace),
                    "withoutAny", NamespaceUtil.withoutNamespace(resource),
                    "of", NamespaceUtil.getNamespaceFromResource(resource)));
            }
        }
    }

    private static void ids() {
        String id = MessageClientIDSetter.createUniqID();
        Util.emit(Util.row("type", "uniqKey", "id", id, "pid", ProcessHandle.current().pid(), "now", System.currentTimeMillis(),
            "ip", MessageClientIDSetter.getIPStrFromID(id), "nearlyTime", MessageClientIDSetter.getNearlyTimeFromID(id).getTime()));
        for (String host : List.of("127.0.0.1", "10.1.2.3", "2001:db8::7")) {
            Util.emit(Util.row("type", "offsetMsgId", "host", host, "port", 10911, "offset", 123456789012L,
                "id", MessageDecoder.createMessageId(new InetSocketAddress(host, 10911), 123456789012L)));
        }
    }

    private static void allocations() {
        for (AllocateMessageQueueStrategy s : List.of(new AllocateMessageQueueAveragely(),
            new AllocateMessageQueueAveragelyByCircle(), new AllocateMessageQueueConsistentHash())) {
            for (int queues : new int[] {1, 2, 3, 4, 7, 8, 16}) {
                for (int members : new int[] {1, 2, 3, 4, 5, 9}) {
                    Util.emit(allocation(s, queues, members));
                }
            }
        }
    }

    private static Map<String, Object> allocation(AllocateMessageQueueStrategy s, int queues, int members) {
        List<MessageQueue> all = new ArrayList<>();
        for (int q = 0; q < queues; q++) {
            all.add(new MessageQueue("t", "broker-a", q));
        }
        List<String> ids = new ArrayList<>();
        for (int m = 0; m < members; m++) {
            ids.add("c" + m);
        }
        List<List<Integer>> owned = new ArrayList<>();
        for (String id : ids) {
            owned.add(s.allocate("g", id, all, ids).stream().map(MessageQueue::getQueueId).toList());
        }
        return Util.row("type", "allocation", "strategy", s.getName(), "queues", queues, "members", members, "owned", owned);
    }

    private static void headers() {
        PullMessageRequestHeader h = new PullMessageRequestHeader();
        h.setConsumerGroup("g");
        h.setTopic("t-é");
        h.setQueueId(3);
        h.setQueueOffset(1L << 40);
        h.setMaxMsgNums(32);
        h.setSysFlag(6);
        h.setCommitOffset(0L);
        h.setSuspendTimeoutMillis(15000L);
        h.setSubscription("A || B");
        h.setSubVersion(7L);
        for (SerializeType type : SerializeType.values()) {
            RemotingCommand c = RemotingCommand.createRequestCommand(11, h);
            c.setOpaque(77);
            c.setLanguage(LanguageCode.PYTHON);
            c.setVersion(479);
            c.setRemark("wörd");
            c.setSerializeTypeCurrentRPC(type);
            c.setBody(utf8("body"));
            ByteBuffer frame = c.encode();
            byte[] bytes = new byte[frame.remaining()];
            frame.get(bytes);
            Util.emit(Util.row("type", "frame", "serialize", type.name(), "frame", base64(bytes)));
        }
    }

    private static void bodies() {
        MessageQueue q = new MessageQueue("t", "broker-a", 1);
        TopicStatsTable stats = new TopicStatsTable();
        TopicOffset o = new TopicOffset();
        o.setMinOffset(1);
        o.setMaxOffset(20);
        o.setLastUpdateTimestamp(1700000000000L);
        stats.getOffsetTable().put(q, o);
        json("TopicStatsTable", stats);
        ConsumeStats consumed = new ConsumeStats();
        OffsetWrapper w = new OffsetWrapper();
        w.setBrokerOffset(20);
        w.setConsumerOffset(15);
        w.setPullOffset(17);
        w.setLastTimestamp(1700000000000L);
        consumed.getOffsetTable().put(q, w);
        consumed.setConsumeTps(1.5);
        json("ConsumeStats", consumed);
        ResetOffsetBody reset = new ResetOffsetBody();
        reset.setOffsetTable(new java.util.HashMap<>(Map.of(q, 9L)));
        json("ResetOffsetBody", reset);
        ConsumerRunningInfo running = new ConsumerRunningInfo();
        ProcessQueueInfo p = new ProcessQueueInfo();
        p.setCommitOffset(15);
        p.setCachedMsgCount(2);
        running.getMqTable().put(q, p);
        running.getProperties().setProperty("PROP_CONSUME_TYPE", "CONSUME_PASSIVELY");
        json("ConsumerRunningInfo", running);
        LockBatchRequestBody lock = new LockBatchRequestBody();
        lock.setClientId("1.2.3.4@1");
        lock.setConsumerGroup("g");
        Set<MessageQueue> set = new LinkedHashSet<>(List.of(q));
        lock.setMqSet(set);
        json("LockBatchRequestBody", lock);
    }

    private static void json(String name, Object body) {
        Util.emit(Util.row("type", "body", "name", name, "json", RemotingSerializable.toJson(body, false)));
    }

    private static void records() throws Exception {
        record("ipv4", sample("127.0.0.1", "10.1.2.3"));
        record("ipv6", sample("2001:db8::7", "::1"));
        record("bornIpv6", sample("2001:db8::7", "10.1.2.3"));
        MessageExt half = sample("127.0.0.1", "127.0.0.1");
        half.setSysFlag(4);
        half.setPreparedTransactionOffset(4711);
        record("prepared", half);
    }

    private static void record(String name, MessageExt m) throws Exception {
        byte[] bytes = MessageDecoder.encode(m, false);
        Util.emit(Util.row("type", "record", "name", name, "bytes", base64(bytes), "decoded", describe(bytes)));
    }

    private static MessageExt sample(String bornHost, String storeHost) {
        MessageExt m = new MessageExt();
        m.setTopic("golden");
        m.setBody(utf8("body é"));
        m.setBodyCRC(UtilAll.crc32(m.getBody()));
        m.setQueueId(3);
        m.setFlag(42);
        m.setQueueOffset(1L << 33);
        m.setCommitLogOffset(1L << 34);
        m.setBornTimestamp(1700000000123L);
        m.setBornHost(new InetSocketAddress(bornHost, 50000));
        m.setStoreTimestamp(1700000000456L);
        m.setStoreHost(new InetSocketAddress(storeHost, 10911));
        if (bornHost.contains(":")) {
            m.setBornHostV6Flag();
        }
        if (storeHost.contains(":")) {
            m.setStoreHostAddressV6Flag();
        }
        m.setReconsumeTimes(2);
        m.setTags("A");
        m.setKeys("k-1");
        return m;
    }

    private static void batch() {
        List<Message> messages = List.of(new Message("golden", "A", "k-1", utf8("one")), new Message("golden", utf8("two")));
        Util.emit(Util.row("type", "batch", "bytes", base64(MessageDecoder.encodeMessages(messages))));
    }

    /** Reads one base64 stored message per line and prints what the Java decoder makes of it. */
    private static void decode() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Util.emit(describe(Base64.getDecoder().decode(line)));
        }
    }

    private static Map<String, Object> describe(byte[] bytes) {
        MessageExt m = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, true, false, false, true);
        if (m == null) {
            return Util.row("type", "undecodable");
        }
        return Util.row("type", "decoded", "topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset(),
            "commitLogOffset", m.getCommitLogOffset(), "flag", m.getFlag(), "sysFlag", m.getSysFlag(),
            "bornTimestamp", m.getBornTimestamp(), "bornHost", host(m.getBornHost()), "storeTimestamp", m.getStoreTimestamp(),
            "storeHost", host(m.getStoreHost()), "reconsumeTimes", m.getReconsumeTimes(),
            "preparedTransactionOffset", m.getPreparedTransactionOffset(), "bodyCRC", m.getBodyCRC(),
            "body", base64(m.getBody()), "properties", m.getProperties(), "msgId", m.getMsgId(), "storeSize", m.getStoreSize());
    }

    private static String host(java.net.SocketAddress a) {
        InetSocketAddress i = (InetSocketAddress) a;
        return i.getAddress().getHostAddress() + "|" + i.getPort();
    }

    private static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private static String base64(byte[] b) {
        return Base64.getEncoder().encodeToString(b);
    }
}
