package foreign;

import java.util.List;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;

/** The transactions of versions before 4.3. */
@SuppressWarnings("deprecation")
final class OldTransactions {
    private OldTransactions() { }

    static void run(String namesrv, String topic, List<AutoCloseable> open) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(topic);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("transaction");
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(Probe.SEND_MILLIS);
        producer.setTransactionCheckListener(message -> {
            String body = Probe.text(message.getBody());
            Line.say("transaction", "checked", "body", body);
            return body.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
        });
        synchronized (Probe.STARTS) {
            producer.start();
            open.add(producer::shutdown);
            Probe.ready(producer);
        }
        for (String body : new String[] {"rollback", "commit", "unknown"}) {
            producer.sendMessageInTransaction(new Message(topic, Probe.bytes(body)), (message, argument) -> {
                switch (Probe.text(message.getBody())) {
                    case "commit": return LocalTransactionState.COMMIT_MESSAGE;
                    case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
                    default: return LocalTransactionState.UNKNOW;
                }
            }, null);
            Line.say("transaction", "sent", "body", body);
        }
    }
}
