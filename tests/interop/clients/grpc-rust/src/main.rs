//! Every mode that Apache's Rust client for gRPC has, against one endpoint: `probe ENDPOINT PREFIX plain "" "" MODES`.
//!
//! Topics and groups exist: `PREFIX-MODE` of the mode's type, and groups `PREFIX-g-MODE`. One JSON line for each mode.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::json;

type Outcome = Result<(), String>;

const PATIENCE: Duration = Duration::from_secs(60);

struct Probe {
    endpoint: String,
    prefix: String,
}

fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Outcome {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{found:?} is not {wanted:?}"))
    }
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

impl Probe {
    fn topic(&self, mode: &str) -> String {
        format!("{}-{mode}", self.prefix)
    }

    fn options(&self) -> ClientOption {
        let mut options = ClientOption::default();
        options.set_access_url(self.endpoint.clone());
        options.set_enable_tls(false);
        options.set_timeout(Duration::from_secs(10));
        options
    }

    async fn producer(&self, mode: &str) -> Result<Producer, String> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![self.topic(mode)]);
        let mut producer = Producer::new(option, self.options()).map_err(text)?;
        producer.start().await.map_err(text)?;
        Ok(producer)
    }

    async fn consumer(&self, mode: &str) -> Result<SimpleConsumer, String> {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![self.topic(mode)]);
        option.set_consumer_group(format!("{}-g-{mode}", self.prefix));
        let mut consumer = SimpleConsumer::new(option, self.options()).map_err(text)?;
        consumer.start().await.map_err(text)?;
        Ok(consumer)
    }

    /// Receives until there are so many messages, or the time is over; acknowledges them if wanted.
    async fn receive(
        &self,
        consumer: &SimpleConsumer,
        mode: &str,
        filter: &FilterExpression,
        count: usize,
        patience: Duration,
        acks: bool,
    ) -> Result<Vec<MessageView>, String> {
        let (mut found, end) = (vec![], Instant::now() + patience);
        while found.len() < count && Instant::now() < end {
            let received = consumer.receive_with(self.topic(mode), filter, 16, Duration::from_secs(12)).await;
            for message in received.map_err(text)? {
                if acks {
                    consumer.ack(&message).await.map_err(text)?;
                }
                found.push(message);
            }
        }
        Ok(found)
    }

    async fn send(&self, producer: &Producer, builder: MessageBuilder) -> Outcome {
        let message = builder.build().map_err(text)?;
        producer.send(message).await.map_err(text).map(|_| ())
    }

    fn message(&self, mode: &str, body: &str) -> MessageBuilder {
        MessageBuilder::builder().set_topic(self.topic(mode)).set_body(body.as_bytes().to_vec())
    }

    async fn normal(&self) -> Outcome {
        let producer = self.producer("normal").await?;
        for number in 0..10 {
            let message = self.message("normal", &format!("n{number}")).set_tag("A").set_keys(vec![format!("k{number}")]);
            self.send(&producer, message.set_properties([("own", number.to_string())].into())).await?;
        }
        let consumer = self.consumer("normal").await?;
        let got = self.receive(&consumer, "normal", &all(), 10, PATIENCE, true).await?;
        equal(bodies(&got), (0..10).map(|number| format!("n{number}")).collect())?;
        let first = got.iter().find(|message| message.body() == b"n0").ok_or("n0 is missing")?;
        equal(first.tag(), Some("A"))?;
        equal(first.keys().to_vec(), vec!["k0".to_owned()])?;
        equal(first.properties().get("own").map(String::as_str), Some("0"))?;
        equal(first.delivery_attempt(), 1)?;
        consumer.shutdown().await.map_err(text)?;
        producer.shutdown().await.map_err(text)
    }

    async fn tag(&self) -> Outcome {
        let producer = self.producer("tag").await?;
        for number in 0..9 {
            let tag = ["A", "B", "C"][number % 3];
            self.send(&producer, self.message("tag", &format!("t{number}")).set_tag(tag)).await?;
        }
        let (consumer, filter) = (self.consumer("tag").await?, FilterExpression::new(FilterType::Tag, "A || C"));
        let got = self.receive(&consumer, "tag", &filter, 6, PATIENCE, true).await?;
        equal(bodies(&got), ["t0", "t2", "t3", "t5", "t6", "t8"].map(str::to_owned).into())
    }

    async fn sql(&self) -> Outcome {
        let producer = self.producer("sql").await?;
        for number in 0..6 {
            let message = self.message("sql", &format!("s{number}"));
            self.send(&producer, message.set_properties([("a", number.to_string())].into())).await?;
        }
        let (consumer, filter) = (self.consumer("sql").await?, FilterExpression::new(FilterType::Sql, "a > 3"));
        let got = self.receive(&consumer, "sql", &filter, 2, PATIENCE, true).await?;
        equal(bodies(&got), ["s4", "s5"].map(str::to_owned).into())
    }

    async fn delay(&self) -> Outcome {
        let (producer, consumer) = (self.producer("delay").await?, self.consumer("delay").await?);
        let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let due = seconds() as i64 + 4;
        let message = MessageBuilder::delay_message_builder(self.topic("delay"), b"late".to_vec(), due);
        self.send(&producer, message).await?;
        let got = self.receive(&consumer, "delay", &all(), 1, PATIENCE, true).await?;
        equal(bodies(&got), ["late".to_owned()].into())?;
        equal(seconds() >= due as f64 - 0.1, true)
    }

    async fn redelivery(&self) -> Outcome {
        let producer = self.producer("redelivery").await?;
        self.send(&producer, self.message("redelivery", "again")).await?;
        let consumer = self.consumer("redelivery").await?;
        let first = self.receive(&consumer, "redelivery", &all(), 1, PATIENCE, false).await?;
        let second = self.receive(&consumer, "redelivery", &all(), 1, PATIENCE, true).await?;
        let attempts = |got: &[MessageView]| got.iter().map(MessageView::delivery_attempt).collect::<Vec<_>>();
        equal((attempts(&first), attempts(&second)), (vec![1], vec![2]))?;
        equal(second[0].message_id(), first[0].message_id())?;
        let third = self.receive(&consumer, "redelivery", &all(), 1, Duration::from_secs(1), true).await?;
        equal(third.len(), 0)
    }

    async fn fifo(&self) -> Outcome {
        let (producer, consumer) = (self.producer("fifo").await?, self.consumer("fifo").await?);
        for number in 0..12 {
            let (group, body) = (format!("group-{}", number % 3), format!("f{}-{number:02}", number % 3));
            let message = MessageBuilder::fifo_message_builder(self.topic("fifo"), body.into_bytes(), group);
            self.send(&producer, message).await?;
        }
        let got = self.receive(&consumer, "fifo", &all(), 12, PATIENCE, true).await?;
        equal(got.len(), 12)?;
        for group in ["f0", "f1", "f2"] {
            let order: Vec<_> = got.iter().filter(|message| message.body().starts_with(group.as_bytes())).collect();
            equal(order.len(), 4)?;
            equal(order.is_sorted_by_key(|message| message.body().to_vec()), true)?;
        }
        Ok(())
    }

    async fn transaction(&self) -> Outcome {
        let mut option = ProducerOption::default();
        option.set_topics(vec![self.topic("transaction")]);
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&asked);
        let checker = Box::new(move |_: String, message: MessageView| {
            seen.lock().unwrap().push(message.body().to_vec());
            if message.body() == b"orphan-commit" {
                TransactionResolution::COMMIT
            } else {
                TransactionResolution::ROLLBACK
            }
        });
        let mut producer = Producer::new_transaction_producer(option, self.options(), checker).map_err(text)?;
        producer.start().await.map_err(text)?;
        let consumer = self.consumer("transaction").await?;
        for body in ["yes", "no", "orphan-commit", "orphan-rollback"] {
            let topic = self.topic("transaction");
            let message = MessageBuilder::transaction_message_builder(topic, body.as_bytes().to_vec());
            let message = message.build().map_err(text)?;
            let transaction = producer.send_transaction_message(message).await.map_err(text)?;
            match body {
                "yes" => transaction.commit().await.map_err(text)?,
                "no" => transaction.rollback().await.map_err(text)?,
                _ => {}
            }
        }
        let got = self.receive(&consumer, "transaction", &all(), 2, PATIENCE, true).await?;
        equal(bodies(&got), ["orphan-commit", "yes"].map(str::to_owned).into())?;
        let end = Instant::now() + PATIENCE;
        while !asked.lock().unwrap().iter().any(|body| body == b"orphan-rollback") {
            if Instant::now() > end {
                return Err("nobody asked for orphan-rollback".into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let more = self.receive(&consumer, "transaction", &all(), 1, Duration::from_secs(1), true).await?;
        equal(more.len(), 0)
    }

    async fn run(&self, mode: &str) -> Outcome {
        match mode {
            "normal" => self.normal().await,
            "tag" => self.tag().await,
            "sql" => self.sql().await,
            "delay" => self.delay().await,
            "redelivery" => self.redelivery().await,
            "fifo" => self.fifo().await,
            "transaction" => self.transaction().await,
            _ => Err("the client has no such mode".into()),
        }
    }
}

fn bodies(messages: &[MessageView]) -> BTreeSet<String> {
    messages.iter().map(|message| String::from_utf8_lossy(message.body()).into_owned()).collect()
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let probe = Probe { endpoint: words[1].clone(), prefix: words[2].clone() };
    let mut failed = false;
    for mode in words[6].split(',') {
        let line = match probe.run(mode).await {
            Ok(()) => json!({"mode": mode, "ok": true}),
            Err(why) => json!({"mode": mode, "ok": false, "why": why}),
        };
        failed |= line["ok"] == false;
        println!("{line}");
    }
    std::process::exit(failed.into());
}
