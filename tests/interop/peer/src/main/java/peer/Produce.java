package peer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends N numbered messages with the stock Java producer; one JSON line per send, then a "done" line. */
public final class Produce {
    private static final AtomicInteger FAILED = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        Util.hurryShutdown();
        System.exit(run(args));
    }

    /** The exit status: 0 when every send succeeded. */
    static int run(String[] args) throws Exception {
        FAILED.set(0);
        Util.Opts o = new Util.Opts(args, 0);
        String mode = o.get("mode", "sync");
        String group = o.get("group", "peer-producer");
        DefaultMQProducer p = mode.equals("tx")
            ? new TransactionMQProducer(group, o.acl()) : new DefaultMQProducer(group, o.acl());
        Util.connect(o, p, "p");
        p.setMaxMessageSize(o.num("max-size", p.getMaxMessageSize()));
        p.setSendMsgTimeout(o.num("send-timeout-ms", 30_000)); // stock: 3 s, after which a retry stores it twice
        p.setCompressMsgBodyOverHowmuch(o.num("compress-over", p.getCompressMsgBodyOverHowmuch()));
        p.setCompressType(CompressionType.of(o.get("compress-type", "ZLIB")));
        if (p instanceof TransactionMQProducer tx) {
            tx.setTransactionListener(new Outcome(o.get("tx", "commit"), o.get("check", "commit")));
        }
        p.start();
        long t0 = System.nanoTime();
        int n = o.num("n", 10);
        int first = o.num("start", 0);
        try {
            switch (mode) {
                case "batch" -> batches(o, p, first, n);
                case "async" -> async(o, p, first, n);
                default -> {
                    double rate = Double.parseDouble(o.get("rate", "0"));
                    for (int i = first; i < first + n; i++) {
                        one(o, p, mode, i);
                        if (rate > 0) {
                            long due = t0 + (long) ((i - first + 1) * 1e9 / rate);
                            Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
                        }
                    }
                }
            }
            double s = (System.nanoTime() - t0) / 1e9;
            Thread.sleep(o.num("linger-ms", mode.equals("oneway") ? 500 : 0));
            Util.emit(Util.row("type", "done", "n", n, "failed", FAILED.get(), "seconds", Util.round(s, 3)));
        } finally {
            p.shutdown();
        }
        return FAILED.get() == 0 ? 0 : 1;
    }

    private static void one(Util.Opts o, DefaultMQProducer p, String mode, int i) throws Exception {
        Message m = message(o, i);
        try {
            switch (mode) {
                case "oneway" -> {
                    p.sendOneway(m);
                    Util.emit(Util.row("type", "sent", "i", i, "status", "ONEWAY"));
                }
                case "tx" -> sent(i, p.sendMessageInTransaction(m, i));
                case "orderly" -> sent(i, p.send(m, new SelectMessageQueueByHash(), fill(o.get("hash-key", "{i}"), i)));
                case "request" -> {
                    Message reply = p.request(m, o.num("timeout-ms", 5000));
                    Util.emit(Util.row("type", "reply", "i", i, "properties", reply.getProperties(),
                        "body", java.util.Base64.getEncoder().encodeToString(reply.getBody())));
                }
                default -> sent(i, queue(o) == null ? p.send(m) : p.send(m, queue(o)));
            }
        } catch (Exception e) {
            failed(i, e);
        }
    }

    private static void async(Util.Opts o, DefaultMQProducer p, int first, int n) throws Exception {
        Semaphore window = new Semaphore(o.num("inflight", 64));
        for (int i = first; i < first + n; i++) {
            int id = i;
            window.acquire();
            SendCallback done = new SendCallback() {
                @Override
                public void onSuccess(SendResult r) {
                    sent(id, r);
                    window.release();
                }

                @Override
                public void onException(Throwable e) {
                    failed(id, e);
                    window.release();
                }
            };
            if (queue(o) == null) {
                p.send(message(o, i), done);
            } else {
                p.send(message(o, i), queue(o), done);
            }
        }
        window.acquire(o.num("inflight", 64));
    }

    private static void batches(Util.Opts o, DefaultMQProducer p, int first, int n) {
        int size = o.num("batch", 32);
        for (int i = first; i < first + n; i += size) {
            List<Message> batch = new ArrayList<>();
            for (int k = i; k < Math.min(first + n, i + size); k++) {
                batch.add(message(o, k));
            }
            try {
                sent(i, queue(o) == null ? p.send(batch) : p.send(batch, queue(o)));
            } catch (Exception e) {
                failed(i, e);
            }
        }
    }

    /** The queue named by --queue ID (with --broker NAME), or null to let the producer choose. */
    private static MessageQueue queue(Util.Opts o) {
        String q = o.get("queue", null);
        return q == null ? null : new MessageQueue(o.need("topic"), o.get("broker", "broker-a"), Integer.parseInt(q));
    }

    /** Message i; {i} in tags, keys, property values and --body is the number; --tags A,B are dealt in turn. */
    private static Message message(Util.Opts o, int i) {
        String text = o.get("body", null);
        byte[] body = text == null ? Util.body(i, o.num("size", 64)) : fill(text, i).getBytes(StandardCharsets.UTF_8);
        Message m = new Message(o.need("topic"), body);
        if (o.get("tags", null) != null) {
            String[] tags = o.get("tags", null).split(",");
            m.setTags(fill(tags[i % tags.length], i));
        }
        if (o.get("keys", null) != null) {
            m.setKeys(fill(o.get("keys", null), i));
        }
        for (String kv : o.all("prop")) {
            int eq = kv.indexOf('=');
            m.putUserProperty(kv.substring(0, eq), fill(kv.substring(eq + 1), i));
        }
        if (o.get("delay-level", null) != null) {
            m.setDelayTimeLevel(o.num("delay-level", 0));
        }
        if (o.get("delay-ms", null) != null) {
            m.setDelayTimeMs(o.num("delay-ms", 0));
        }
        m.setFlag(o.num("flag", 0));
        m.setWaitStoreMsgOK(!o.flag("no-wait-store"));
        return m;
    }

    private static String fill(String template, int i) {
        return template.replace("{i}", String.valueOf(i)).replace("{i%3}", String.valueOf(i % 3));
    }

    private static void sent(int i, SendResult r) {
        MessageQueue q = r.getMessageQueue();
        Map<String, Object> row = Util.row("type", "sent", "i", i, "status", r.getSendStatus().name(),
            "msgId", r.getMsgId(), "offsetMsgId", r.getOffsetMsgId(), "topic", q.getTopic(),
            "broker", q.getBrokerName(), "queueId", q.getQueueId(), "queueOffset", r.getQueueOffset());
        if (r instanceof org.apache.rocketmq.client.producer.TransactionSendResult t) {
            row.put("transactionId", t.getTransactionId());
            row.put("localState", t.getLocalTransactionState().name());
        }
        Util.emit(row);
    }

    private static void failed(int i, Throwable e) {
        FAILED.incrementAndGet();
        Util.emit(Util.row("type", "error", "i", i, "error", String.valueOf(e)));
    }

    /**
     * Answers half messages: local and check are commit, rollback, unknown, or "cycle" (by number modulo 3). Asked about
     * what it has decided, as brokers may on a busy machine, it says the same again; check is for what it left unknown.
     */
    private record Outcome(String local, String check, Map<String, LocalTransactionState> decided) implements TransactionListener {
        Outcome(String local, String check) {
            this(local, check, new ConcurrentHashMap<>());
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
            LocalTransactionState said = state(local, (Integer) arg);
            if (said != LocalTransactionState.UNKNOW) {
                decided.put(m.getProperty("UNIQ_KEY"), said);
            }
            return said;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt m) {
            Util.emit(Util.row("type", "check", "transactionId", m.getTransactionId(),
                "checkTimes", m.getProperty("TRANSACTION_CHECK_TIMES"), "queueOffset", m.getQueueOffset()));
            LocalTransactionState said = decided.get(m.getProperty("UNIQ_KEY"));
            return said != null ? said : state(check, (int) m.getQueueOffset());
        }

        private static LocalTransactionState state(String how, int i) {
            String s = how.equals("cycle") ? List.of("commit", "rollback", "unknown").get(i % 3) : how;
            return switch (s) {
                case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
                case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }
    }
}
