// Every mode of Apache's Node client for gRPC, against one endpoint: probe.js ENDPOINT PREFIX tls|plain AK SK MODES.
// Topics and groups exist: PREFIX-MODE of the mode's type, and groups PREFIX-g-MODE. One JSON line for each mode.

"use strict";

const assert = require("node:assert/strict");
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require("rocketmq-client-nodejs");
const { FilterType, TransactionResolution } = require(
  "rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb",
);

const [endpoint, PREFIX, how, accessKey, accessSecret, modes] = process.argv.slice(2);
const logger = { info() {}, debug() {}, warn: console.error, error: console.error };
const CLIENT = {
  endpoints: endpoint, namespace: "", sslEnabled: how === "tls", requestTimeout: 10000, logger,
  ...(accessKey ? { sessionCredentials: { accessKey, accessSecret } } : {}),
};
const SECONDS = 60;

const topicOf = (mode) => `${PREFIX}-${mode}`;
const groupOf = (mode) => `${PREFIX}-g-${mode}`;
const message = (mode, body, more = {}) => ({ topic: topicOf(mode), body: Buffer.from(body), ...more });
const seen = (messages) => messages.map((one) => one.body.toString()).sort();
const numbered = (letter, count) => Array.from({ length: count }, (_, i) => `${letter}${i}`);

async function simple(mode, expression = FilterExpression.SUB_ALL) {
  const consumer = new SimpleConsumer({
    ...CLIENT, consumerGroup: groupOf(mode), subscriptions: new Map([[topicOf(mode), expression]]),
    awaitDuration: 3000,
  });
  await consumer.startup();
  return consumer;
}

async function receiveAll(consumer, count, { ack = true, invisible = 15000, seconds = SECONDS } = {}) {
  const found = [];
  const end = Date.now() + seconds * 1000;
  while (found.length < count && Date.now() < end) {
    for (const one of await consumer.receive(16, invisible)) {
      found.push(one);
      if (ack) await consumer.ack(one);
    }
  }
  return found;
}

class Inbox {
  constructor(judge = () => ConsumeResult.SUCCESS) {
    this.judge = judge;
    this.messages = [];
    this.waiting = [];
  }

  async consume(view) {
    this.messages.push([view.body.toString(), view.deliveryAttempt]);
    for (const look of this.waiting) look();
    return this.judge(view);
  }

  wait(wanted) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(JSON.stringify(this.messages))), SECONDS * 1000);
      const look = () => {
        if (wanted(this.messages)) {
          clearTimeout(timer);
          resolve();
        }
      };
      this.waiting.push(look);
      look();
    });
  }
}

async function pushing(mode, inbox) {
  const consumer = new PushConsumer({
    ...CLIENT, consumerGroup: groupOf(mode), subscriptions: new Map([[topicOf(mode), FilterExpression.SUB_ALL]]),
    messageListener: inbox,
  });
  await consumer.startup();
  return consumer;
}

const MODES = {
  async normal(producer) {
    const ids = [];
    for (const body of numbered("n", 10)) {
      const properties = new Map([["own", body]]);
      ids.push((await producer.send(message("normal", body, { tag: "A", keys: [`k-${body}`], properties }))).messageId);
    }
    const consumer = await simple("normal");
    const got = await receiveAll(consumer, 10);
    assert.deepEqual(seen(got), numbered("n", 10));
    assert.deepEqual(got.map((one) => one.messageId).sort(), ids.sort());
    const first = got.find((one) => one.body.toString() === "n0");
    assert.deepEqual([first.tag, first.keys, first.properties.get("own")], ["A", ["k-n0"], "n0"]);
    assert.equal(first.deliveryAttempt, 1);
    assert.ok(!got.some((one) => one.corrupted));
    await producer.send(message("normal", "b".repeat(3000000)));
    const [huge] = await receiveAll(consumer, 1);
    assert.equal(huge.body.length, 3000000);
    await consumer.shutdown();
  },

  async tag(producer) {
    for (const [at, body] of numbered("t", 9).entries()) {
      await producer.send(message("tag", body, { tag: "ABC"[at % 3] }));
    }
    const consumer = await simple("tag", new FilterExpression("A || C"));
    assert.deepEqual(seen(await receiveAll(consumer, 6)), ["t0", "t2", "t3", "t5", "t6", "t8"]);
    await consumer.shutdown();
  },

  async sql(producer) {
    for (const [at, body] of numbered("s", 6).entries()) {
      await producer.send(message("sql", body, { properties: new Map([["a", String(at)]]) }));
    }
    const consumer = await simple("sql", new FilterExpression("a > 3", FilterType.SQL));
    assert.deepEqual(seen(await receiveAll(consumer, 2)), ["s4", "s5"]);
    await consumer.shutdown();
  },

  async delay(producer) {
    const consumer = await simple("delay");
    const due = Date.now() + 3000;
    await producer.send(message("delay", "late", { deliveryTimestamp: new Date(due) }));
    const [got] = await receiveAll(consumer, 1);
    assert.ok(Date.now() >= due - 1000, `${Date.now()} ${due}`); // brokers are exact to the second
    assert.equal(got.body.toString(), "late");
    const receipt = await producer.send(message("delay", "never", { delay: 6000 }));
    await producer.recallMessage(topicOf("delay"), receipt.recallHandle);
    assert.deepEqual(await receiveAll(consumer, 1, { seconds: 9 }), []);
    await consumer.shutdown();
  },

  async redelivery(producer) {
    await producer.send(message("redelivery", "again"));
    const consumer = await simple("redelivery");
    const [first] = await receiveAll(consumer, 1, { ack: false });
    assert.equal(first.deliveryAttempt, 1);
    await consumer.changeInvisibleDuration(first, 10000);
    const [second] = await receiveAll(consumer, 1);
    assert.deepEqual([second.body.toString(), second.deliveryAttempt, second.messageId], ["again", 2, first.messageId]);
    await consumer.shutdown();
  },

  async push(producer) {
    const inbox = new Inbox((view) =>
      view.body.toString() === "p3" && view.deliveryAttempt === 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS);
    const consumer = await pushing("push", inbox);
    for (const body of numbered("p", 10)) await producer.send(message("push", body));
    await inbox.wait((got) => new Set(got.map(([body]) => body)).size === 10);
    await inbox.wait((got) => got.some(([body, attempt]) => body === "p3" && attempt === 2));
    assert.equal(inbox.messages.length, 11);
    await consumer.shutdown();
  },

  async fifo(producer) {
    const inbox = new Inbox();
    const consumer = await pushing("fifo", inbox);
    for (let at = 0; at < 12; at++) {
      const body = `f${at % 3}-${String(at).padStart(2, "0")}`;
      await producer.send(message("fifo", body, { messageGroup: `group-${at % 3}` }));
    }
    await inbox.wait((got) => got.length >= 12);
    for (const group of ["f0", "f1", "f2"]) {
      const bodies = inbox.messages.map(([body]) => body).filter((body) => body.startsWith(group));
      assert.deepEqual(bodies, [...bodies].sort());
      assert.equal(bodies.length, 4);
    }
    await consumer.shutdown();
  },

  async transaction() {
    const asked = [];
    const checker = {
      async check(view) {
        asked.push(view.body.toString());
        return view.body.toString() === "orphan-commit" ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
      },
    };
    const producer = new Producer({ ...CLIENT, topics: [topicOf("transaction")], checker });
    await producer.startup();
    const consumer = await simple("transaction");
    for (const [body, end] of [["yes", "commit"], ["no", "rollback"], ["orphan-commit", null], ["orphan-rollback", null]]) {
      const transaction = producer.beginTransaction();
      await producer.send(message("transaction", body), transaction);
      if (end !== null) await transaction[end]();
    }
    assert.deepEqual(seen(await receiveAll(consumer, 2)), ["orphan-commit", "yes"]);
    const end = Date.now() + SECONDS * 1000;
    while (!asked.includes("orphan-rollback") && Date.now() < end) {
      assert.deepEqual(await receiveAll(consumer, 1, { seconds: 1 }), []);
    }
    assert.ok(asked.includes("orphan-rollback"), asked.join());
    await consumer.shutdown();
    await producer.shutdown();
  },

  async dead(producer) {
    const inbox = new Inbox(() => ConsumeResult.FAILURE);
    const consumer = await pushing("dead", inbox);
    await producer.send(message("dead", "bad"));
    await inbox.wait((got) => got.length >= 2); // the group retries once at most
    await new Promise((resolve) => setTimeout(resolve, 20000)); // the dead letter is what the test looks for
    await consumer.shutdown();
  },
};

async function main() {
  const producer = new Producer({ ...CLIENT, topics: [topicOf("normal")] });
  await producer.startup();
  let failed = 0;
  for (const mode of modes.split(",")) {
    try {
      await MODES[mode](producer);
      console.log(JSON.stringify({ mode, ok: true }));
    } catch (e) {
      failed = 1;
      console.log(JSON.stringify({ mode, ok: false, why: String(e.stack) }));
    }
  }
  process.exit(failed);
}

main().catch((e) => {
  console.error(e);
  process.exit(2);
});
