package peer;

import java.lang.reflect.Field;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl;
import org.apache.rocketmq.broker.transaction.queue.TransactionalOpBatchService;
import org.apache.rocketmq.common.ServiceThread;

/**
 * Writes down which transactions have ended, as the stock thread does, with 20 ms between two rounds.
 *
 * <p>The stock thread of 5.5.0 waits no more once a transaction has ended: it takes a whole core from then on.
 */
final class PacedOpBatch extends TransactionalOpBatchService {
    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private PacedOpBatch(BrokerController broker, TransactionalMessageServiceImpl service) {
        super(broker, service);
    }

    /** Takes the place of the stock thread of a broker that has not started yet. */
    static void install(BrokerController broker) throws ReflectiveOperationException {
        TransactionalMessageServiceImpl service = (TransactionalMessageServiceImpl) broker.getTransactionalMessageService();
        Field field = TransactionalMessageServiceImpl.class.getDeclaredField("transactionalOpBatchService");
        field.setAccessible(true);
        ((ServiceThread) field.get(service)).shutdown();
        PacedOpBatch paced = new PacedOpBatch(broker, service);
        field.set(service, paced);
        paced.start();
    }

    @Override
    protected void waitForRunning(long interval) {
        if (interval == 0) {
            LockSupport.parkNanos(PAUSE_NANOS);
        }
        super.waitForRunning(interval);
    }
}
