package foreign;

import java.util.List;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The transactions of version 4.3 and newer; a class of its own, since older clients lack its types. */
final class Transactions {
    private Transactions() { }

    static void run(String namesrv, String topic, List<AutoCloseable> open) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(topic);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("transaction");
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(Probe.SEND_MILLIS);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                switch (Probe.text(message.getBody())) {
                    case "commit": return LocalTransactionState.COMMIT_MESSAGE;
                    case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
                    default: return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = Probe.text(message.getBody());
                Line.say("transaction", "checked", "body", body);
                return body.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        synchronized (Probe.STARTS) {
            producer.start();
            open.add(producer::shutdown);
            Probe.ready(producer);
        }
        for (String body : new String[] {"rollback", "commit", "unknown"}) {
            producer.sendMessageInTransaction(new Message(topic, Probe.bytes(body)), null);
            Line.say("transaction", "sent", "body", body);
        }
    }
}
