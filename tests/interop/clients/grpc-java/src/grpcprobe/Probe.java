package grpcprobe;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Every mode of Apache's Java client for gRPC: ENDPOINT PREFIX tls|plain ACCESS_KEY SECRET_KEY [MODE,MODE...]. */
public final class Probe {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Duration INVISIBLE = Duration.ofSeconds(15);
    private final ClientConfiguration configuration;
    private final String prefix;

    interface Mode {
        void run() throws Exception;
    }

    private Probe(String[] args) {
        prefix = args[1];
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(args[0]).enableSsl(args[2].equals("tls")).setRequestTimeout(Duration.ofSeconds(10));
        if (!args[3].isEmpty()) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(args[3], args[4]));
        }
        configuration = builder.build();
    }

    public static void main(String[] args) {
        Probe probe = new Probe(args);
        Set<String> wanted = args.length > 5 ? new HashSet<>(Arrays.asList(args[5].split(","))) : null;
        boolean failed = false;
        failed |= !probe.mode("normal", wanted, probe::normal);
        failed |= !probe.mode("tag", wanted, probe::tag);
        failed |= !probe.mode("sql", wanted, probe::sql);
        failed |= !probe.mode("delay", wanted, probe::delay);
        failed |= !probe.mode("redelivery", wanted, probe::redelivery);
        failed |= !probe.mode("push", wanted, probe::push);
        failed |= !probe.mode("fifo", wanted, probe::fifo);
        failed |= !probe.mode("transaction", wanted, probe::transaction);
        failed |= !probe.mode("dead", wanted, probe::dead);
        System.exit(failed ? 1 : 0);
    }

    private boolean mode(String name, Set<String> wanted, Mode mode) {
        if (wanted != null && !wanted.contains(name)) {
            return true;
        }
        String why = "";
        try {
            mode.run();
        } catch (Throwable e) {
            e.printStackTrace();
            why = (e.getClass().getName() + ": " + e.getMessage()).replaceAll("[^ -~]|[\"\\\\]", "'");
        }
        System.out.println("{\"mode\": \"" + name + "\", \"ok\": " + why.isEmpty() + ", \"why\": \"" + why + "\"}");
        System.out.flush();
        return why.isEmpty();
    }

    private Producer producer(String mode) throws ClientException {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(prefix + "-" + mode).build();
    }

    private MessageBuilder message(String mode, String body) {
        return PROVIDER.newMessageBuilder().setTopic(prefix + "-" + mode).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private SimpleConsumer simple(String mode, FilterExpression expression) throws ClientException {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(prefix + "-g-" + mode).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(prefix + "-" + mode, expression)).build();
    }

    private static String text(MessageView view) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<MessageView> receive(SimpleConsumer consumer, int count, int seconds, boolean ack) throws ClientException {
        List<MessageView> found = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (found.size() < count && System.nanoTime() < end) {
            for (MessageView view : consumer.receive(16, INVISIBLE)) {
                found.add(view);
                if (ack) {
                    consumer.ack(view);
                }
            }
        }
        return found;
    }

    private static Set<String> texts(List<MessageView> views) {
        Set<String> found = new TreeSet<>();
        for (MessageView view : views) {
            found.add(text(view));
        }
        return found;
    }

    private static void check(boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError(String.valueOf(seen));
        }
    }

    private void normal() throws Exception {
        try (Producer producer = producer("normal"); SimpleConsumer consumer = simple("normal", FilterExpression.SUB_ALL)) {
            Set<String> ids = new HashSet<>();
            for (int i = 0; i < 10; i++) {
                Message one = message("normal", "n" + i).setTag("A").setKeys("k" + i, "all").addProperty("own", "" + i).build();
                ids.add(producer.send(one).getMessageId().toString());
            }
            List<MessageView> got = receive(consumer, 10, 60, true);
            check(texts(got).size() == 10, texts(got));
            for (MessageView view : got) {
                String number = text(view).substring(1);
                check(view.getTag().get().equals("A") && view.getKeys().contains("k" + number), view);
                check(view.getProperties().get("own").equals(number) && view.getDeliveryAttempt() == 1, view);
                check(ids.contains(view.getMessageId().toString()), view);
            }
            byte[] big = new byte[3_000_000];
            producer.send(PROVIDER.newMessageBuilder().setTopic(prefix + "-normal").setBody(big).build());
            check(receive(consumer, 1, 60, true).get(0).getBody().remaining() == 3_000_000, "big");
        }
    }

    private void tag() throws Exception {
        try (Producer producer = producer("tag"); SimpleConsumer consumer = simple("tag", new FilterExpression("A || C"))) {
            for (int i = 0; i < 9; i++) {
                producer.send(message("tag", "t" + i).setTag("ABC".substring(i % 3, i % 3 + 1)).build());
            }
            Set<String> got = texts(receive(consumer, 6, 60, true));
            check(got.equals(new TreeSet<>(Arrays.asList("t0", "t2", "t3", "t5", "t6", "t8"))), got);
        }
    }

    private void sql() throws Exception {
        FilterExpression expression = new FilterExpression("a > 3", FilterExpressionType.SQL92);
        try (Producer producer = producer("sql"); SimpleConsumer consumer = simple("sql", expression)) {
            for (int i = 0; i < 6; i++) {
                producer.send(message("sql", "s" + i).addProperty("a", "" + i).build());
            }
            Set<String> got = texts(receive(consumer, 2, 60, true));
            check(got.equals(new TreeSet<>(Arrays.asList("s4", "s5"))), got);
        }
    }

    private void delay() throws Exception {
        try (Producer producer = producer("delay"); SimpleConsumer consumer = simple("delay", FilterExpression.SUB_ALL)) {
            long due = System.currentTimeMillis() + 3000;
            producer.send(message("delay", "late").setDeliveryTimestamp(due).build());
            List<MessageView> got = receive(consumer, 1, 60, true);
            check(got.size() == 1 && System.currentTimeMillis() >= due - 100, got);
            SendReceipt receipt = producer.send(message("delay", "never").setDeliveryTimestamp(System.currentTimeMillis() + 4000).build());
            producer.recallMessage(prefix + "-delay", receipt.getRecallHandle());
            check(receive(consumer, 1, 8, true).isEmpty(), "recalled");
        }
    }

    private void redelivery() throws Exception {
        try (Producer producer = producer("redelivery"); SimpleConsumer consumer = simple("redelivery", FilterExpression.SUB_ALL)) {
            producer.send(message("redelivery", "again").build());
            MessageView first = receive(consumer, 1, 60, false).get(0);
            consumer.changeInvisibleDuration(first, Duration.ofSeconds(10));
            List<MessageView> second = receive(consumer, 1, 60, true);
            check(second.size() == 1 && second.get(0).getDeliveryAttempt() == 2, second);
            check(second.get(0).getMessageId().equals(first.getMessageId()), second);
            check(receive(consumer, 1, 6, true).isEmpty(), "acknowledged");
        }
    }

    private PushConsumer push(String mode, List<String> seen, Function<MessageView, ConsumeResult> judge) throws ClientException {
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(prefix + "-g-" + mode)
            .setSubscriptionExpressions(Collections.singletonMap(prefix + "-" + mode, FilterExpression.SUB_ALL))
            .setMessageListener(view -> {
                seen.add(text(view) + "/" + view.getDeliveryAttempt());
                return judge.apply(view);
            }).build();
    }

    private static void await(List<String> seen, Function<List<String>, Boolean> wanted) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!wanted.apply(seen)) {
            check(System.nanoTime() < end, seen);
            Thread.sleep(50);
        }
    }

    private void push() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        Function<MessageView, ConsumeResult> judge = view ->
            text(view).equals("p3") && view.getDeliveryAttempt() == 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        try (Producer producer = producer("push"); PushConsumer consumer = push("push", seen, judge)) {
            for (int i = 0; i < 10; i++) {
                producer.send(message("push", "p" + i).build());
            }
            await(seen, got -> got.size() >= 11 && got.contains("p3/2"));
            check(seen.size() == 11, seen);
        }
    }

    private void fifo() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        try (Producer producer = producer("fifo"); PushConsumer consumer = push("fifo", seen, view -> ConsumeResult.SUCCESS)) {
            for (int i = 0; i < 12; i++) {
                producer.send(message("fifo", String.format("f%d-%02d", i % 3, i)).setMessageGroup("group-" + i % 3).build());
            }
            await(seen, got -> got.size() >= 12);
            for (int one = 0; one < 3; one++) {
                List<String> bodies = new ArrayList<>(seen);
                String start = "f" + one;
                bodies.removeIf(body -> !body.startsWith(start));
                List<String> sorted = new ArrayList<>(bodies);
                Collections.sort(sorted);
                check(bodies.size() == 4 && bodies.equals(sorted), seen);
            }
        }
    }

    private void transaction() throws Exception {
        Set<String> asked = Collections.synchronizedSet(new HashSet<>());
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(prefix + "-transaction").setTransactionChecker(view -> {
                asked.add(text(view));
                return text(view).equals("orphan-commit") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
            }).build();
        try (SimpleConsumer consumer = simple("transaction", FilterExpression.SUB_ALL)) {
            for (String body : Arrays.asList("yes", "no", "orphan-commit", "orphan-rollback")) {
                Transaction transaction = producer.beginTransaction();
                producer.send(message("transaction", body).build(), transaction);
                if (body.equals("yes")) {
                    transaction.commit();
                } else if (body.equals("no")) {
                    transaction.rollback();
                }
            }
            Set<String> got = texts(receive(consumer, 2, 60, true));
            check(got.equals(new TreeSet<>(Arrays.asList("yes", "orphan-commit"))), got);
            await(new ArrayList<>(), none -> asked.contains("orphan-rollback"));
            check(receive(consumer, 1, 6, true).isEmpty(), "rolled back");
        }
        producer.close();
    }

    /** The group retries once at most. */
    private void dead() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        try (Producer producer = producer("dead"); PushConsumer consumer = push("dead", seen, view -> ConsumeResult.FAILURE)) {
            producer.send(message("dead", "bad").build());
            await(seen, got -> got.contains("bad/2"));
            Thread.sleep(20_000);
            check(seen.size() == 2, seen);
        }
    }
}
