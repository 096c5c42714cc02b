//! Uses a cluster through the crate rocketmq-client-v4: `probe NAMESRV PREFIX MODE...`, see clients/README.md.

use std::sync::Arc;
use std::time::Duration;

use rocketmq_client_v4::consumer::message_handler::MessageHandler;
use rocketmq_client_v4::consumer::pull_consumer_v2::PullConsumer;
use rocketmq_client_v4::producer::Producer;
use rocketmq_client_v4::protocols::body::message_body::MessageBody;
use serde_json::{json, Value};
use tokio::io::AsyncReadExt;
use tokio::sync::RwLock;

const SENT: usize = 10;

fn say(mode: &str, kind: &str, mut members: Value) {
    members["mode"] = json!(mode);
    members["kind"] = json!(kind);
    println!("{members}");
}

struct Listener {
    mode: String,
    who: usize,
}

impl MessageHandler for Listener {
    async fn handle(&self, message: &MessageBody) {
        say(&self.mode, "got", json!({
            "who": self.who, "body": String::from_utf8_lossy(&message.body), "tags": message.properties.get("TAGS"),
            "keys": message.properties.get("KEYS"), "queue": message.queue_id, "offset": message.queue_offset,
            "times": message.reconsume_times,
        }));
    }
}

async fn send(mode: &str, namesrv: String, topic: String) {
    let mut producer = Producer::new(topic.clone(), namesrv).await;
    for i in 0..SENT {
        let tag = ["A", "B"][i % 2].to_string();
        let body = i.to_string();
        match producer.send_message_with_tag(topic.clone(), tag, body.clone().into_bytes(), format!("k-{i}")).await {
            Ok(()) => say(mode, "sent", json!({"body": body})), // the client does not tell what the broker answered
            Err(error) => say(mode, "error", json!({"text": error.to_string()})),
        }
    }
    std::future::pending::<()>().await;
}

async fn receive(mode: &str, namesrv: String, topic: String, run: Arc<RwLock<bool>>) {
    for who in 0..(if mode == "broadcast" { 2 } else { 1 }) {
        let consumer = if mode == "broadcast" {
            PullConsumer::new_broadcast_consumer(namesrv.clone(), topic.clone(), topic.clone())
        } else {
            PullConsumer::new(namesrv.clone(), topic.clone(), topic.clone())
        };
        let listener = Arc::new(Listener { mode: mode.to_string(), who });
        let run = run.clone();
        tokio::spawn(async move { consumer.start_consume(listener, run).await });
    }
}

async fn steady(mode: &str, namesrv: String, topic: String, run: Arc<RwLock<bool>>) {
    receive(mode, namesrv.clone(), topic.clone(), run.clone()).await;
    let mut producer = Producer::new(topic.clone(), namesrv).await;
    say(mode, "ready", json!({}));
    for i in 0.. {
        let body = i.to_string();
        match producer.send_message(topic.clone(), body.clone().into_bytes(), body.clone()).await {
            Ok(()) => say(mode, "sent", json!({"body": body})),
            Err(error) => say(mode, "error", json!({"text": error.to_string()})),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let run = Arc::new(RwLock::new(true));
    for mode in args[3..].to_vec() {
        let (namesrv, topic, run) = (args[1].clone(), format!("{}-{mode}", args[2]), run.clone());
        tokio::spawn(async move {
            match mode.as_str() {
                "oneway" => send(&mode, namesrv, topic).await,
                "steady" => steady(&mode, namesrv, topic, run).await,
                _ => receive(&mode, namesrv, topic, run).await,
            }
        });
    }
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    *run.write().await = false;
    say("all", "closed", json!({}));
    std::process::exit(0);
}
