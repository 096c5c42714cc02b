package foreign;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Uses a cluster in the modes that README.md describes, with whichever version of the client is on the class path. */
public final class Probe {
    private static final int SENT = 10;
    private static final int ORDERED = 12;
    private static final String DEFAULT_TOPIC = "TBW102";
    private static final int READY_TRIES = 10;
    static final int SEND_MILLIS = 10_000;
    /** Held by the mode whose client starts. Clients give their first questions 3 s, which is short for many at once. */
    static final Object STARTS = new Object();

    private final String namesrv;
    private final String prefix;
    private final List<AutoCloseable> open = Collections.synchronizedList(new ArrayList<AutoCloseable>());
    private volatile boolean ended;

    private Probe(String namesrv, String prefix) {
        this.namesrv = namesrv;
        this.prefix = prefix;
    }

    public static void main(String[] args) throws Exception {
        Probe probe = new Probe(args[0], args[1]);
        probe.producer("warm");
        List<Thread> threads = new ArrayList<>();
        for (int i = 2; i < args.length; i++) {
            String mode = args[i];
            Thread thread = new Thread(() -> probe.run(mode), mode);
            threads.add(thread);
            thread.start();
        }
        while (System.in.read() >= 0) { /* until the end */ }
        probe.ended = true;
        for (Thread thread : threads) {
            thread.join();
        }
        for (AutoCloseable each : probe.open) {
            each.close();
        }
        Line.say("all", "closed");
        System.exit(0);
    }

    private void run(String mode) {
        try {
            switch (mode) {
                case "send": case "async": case "oneway": case "batch": case "delay": case "ordered": send(mode); break;
                case "transaction": transactions(mode); break;
                case "pull": pull(mode); break;
                case "steady": steady(mode); break;
                case "broadcast": consume(mode, 0); consume(mode, 1); break;
                default: consume(mode, 0);
            }
            Line.say(mode, "ready");
        } catch (Throwable e) {
            Line.say(mode, "error", "text", reason(e));
        }
    }

    /** The error and what caused it, since clients wrap a timeout as "send message Exception". */
    private static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; caused by ").append(cause);
        }
        return text.toString();
    }

    /**
     * Waits until the name server answers the producer. A client gives its first question 3 s, with connecting, whatever
     * it is told; on a busy machine that is too short for a JVM that has just started. So a producer that tries again is
     * the first client of all, and the others start one after the other.
     */
    static <T extends DefaultMQProducer> T ready(T producer) throws Exception {
        for (int i = 1; ; i++) {
            try {
                producer.fetchPublishMessageQueues(DEFAULT_TOPIC);
                return producer;
            } catch (Exception e) {
                if (i == READY_TRIES) {
                    throw e;
                }
            }
        }
    }

    private String topic(String mode) {
        return prefix + "-" + mode;
    }

    private DefaultMQProducer producer(String mode) throws Exception {
        DefaultMQProducer made = new DefaultMQProducer(topic(mode));
        made.setNamesrvAddr(namesrv);
        made.setInstanceName(mode + "-producer");
        made.setVipChannelEnabled(false);
        made.setSendMsgTimeout(SEND_MILLIS);
        synchronized (STARTS) {
            made.start();
            open.add(made::shutdown);
            return ready(made);
        }
    }

    private void transactions(String mode) throws Exception {
        try {
            Transactions.run(namesrv, topic(mode), open);
        } catch (NoClassDefFoundError e) {
            OldTransactions.run(namesrv, topic(mode), open);
        }
    }

    private static void sent(String mode, Message message, SendResult result) {
        Line.say(mode, "sent", "body", text(message.getBody()), "queue", result.getMessageQueue().getQueueId(),
            "offset", result.getQueueOffset(), "id", result.getMsgId(), "text", result.getSendStatus().name());
    }

    private void send(String mode) throws Exception {
        DefaultMQProducer producer = producer(mode);
        List<Message> all = new ArrayList<>();
        for (int i = 0; i < SENT; i++) {
            all.add(new Message(topic(mode), i % 2 == 0 ? "A" : "B", "k-" + i, bytes("" + i)));
        }
        switch (mode) {
            case "send":
                for (Message each : all) {
                    sent(mode, each, producer.send(each));
                }
                break;
            case "async":
                for (Message each : all) {
                    producer.send(each, new SendCallback() {
                        @Override
                        public void onSuccess(SendResult result) {
                            sent(mode, each, result);
                        }

                        @Override
                        public void onException(Throwable e) {
                            Line.say(mode, "error", "text", reason(e));
                        }
                    });
                }
                break;
            case "oneway":
                for (Message each : all) {
                    producer.sendOneway(each);
                }
                break;
            case "batch":
                sent(mode, all.get(0), producer.send(all));
                break;
            case "ordered":
                for (int i = 0; i < ORDERED; i++) {
                    Message each = new Message(topic(mode), bytes("" + i));
                    sent(mode, each, producer.send(each, (queues, m, shard) -> queues.get((Integer) shard % queues.size()), i % 3));
                }
                break;
            default:
                all.get(0).setDelayTimeLevel(2);
                sent(mode, all.get(0), producer.send(all.get(0)));
        }
    }

    private void consume(String mode, int who) throws Exception {
        DefaultMQPushConsumer made = new DefaultMQPushConsumer(topic(mode));
        made.setNamesrvAddr(namesrv);
        made.setInstanceName(mode + "-" + who);
        made.setVipChannelEnabled(false);
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (mode.equals("broadcast")) {
            broadcasts(made);
        }
        if (mode.equals("sql")) {
            made.subscribe(topic(mode), MessageSelector.bySql("a > 4"));
        } else {
            made.subscribe(topic(mode), mode.equals("tags") ? "A || B" : "*");
        }
        Set<String> failed = ConcurrentHashMap.newKeySet();
        if (mode.equals("orderly")) {
            made.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt each : messages) {
                    if (text(each.getBody()).equals("7") && failed.add("7")) {
                        context.setSuspendCurrentQueueTimeMillis(100);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    got(mode, who, each);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            made.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean fails = false;
                for (MessageExt each : messages) {
                    got(mode, who, each);
                    fails |= mode.equals("retry") && each.getReconsumeTimes() == 0;
                }
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        synchronized (STARTS) {
            made.start();
        }
        open.add(made::shutdown);
    }

    /** Version 5 has moved the type of the setting to another package. */
    private static void broadcasts(DefaultMQPushConsumer consumer) throws ReflectiveOperationException {
        for (Method setter : DefaultMQPushConsumer.class.getMethods()) {
            if (setter.getName().equals("setMessageModel")) {
                Class<?> model = setter.getParameterTypes()[0];
                setter.invoke(consumer, model.getField("BROADCASTING").get(null));
            }
        }
    }

    private static void got(String mode, int who, MessageExt message) {
        Map<String, String> properties = message.getProperties();
        Line.say(mode, "got", "who", who, "body", text(message.getBody()), "tags", properties.get("TAGS"), "keys",
            properties.get("KEYS"), "queue", message.getQueueId(), "offset", message.getQueueOffset(),
            "times", message.getReconsumeTimes(), "id", message.getMsgId(), "topic", message.getTopic());
    }

    @SuppressWarnings("deprecation")
    private void pull(String mode) throws Exception {
        DefaultMQPullConsumer made = new DefaultMQPullConsumer(topic(mode));
        made.setNamesrvAddr(namesrv);
        made.setInstanceName(mode);
        made.setVipChannelEnabled(false);
        Set<MessageQueue> queues;
        synchronized (STARTS) {
            made.start();
            open.add(made::shutdown);
            queues = made.fetchSubscribeMessageQueues(topic(mode));
        }
        Map<MessageQueue, Long> offsets = new ConcurrentHashMap<>();
        while (!ended) {
            for (MessageQueue queue : queues) {
                long from = offsets.containsKey(queue) ? offsets.get(queue) : made.minOffset(queue);
                PullResult result = made.pull(queue, "*", from, 32);
                offsets.put(queue, result.getNextBeginOffset());
                if (result.getPullStatus() == PullStatus.FOUND) {
                    result.getMsgFoundList().forEach(each -> got(mode, 0, each));
                }
                made.updateConsumeOffset(queue, result.getNextBeginOffset());
            }
            Thread.sleep(50);
        }
    }

    private void steady(String mode) throws Exception {
        consume(mode, 0);
        DefaultMQProducer producer = producer(mode);
        Line.say(mode, "ready");
        for (int i = 0; !ended; i++) {
            Message message = new Message(topic(mode), bytes("" + i));
            try {
                sent(mode, message, producer.send(message, 1000));
            } catch (Exception e) {
                Line.say(mode, "error", "text", reason(e));
            }
            Thread.sleep(200);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }
}
