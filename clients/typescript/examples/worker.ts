// A worker with a checked message, a reply and a follow-up. Run it after `npm run build`:
//   DELAYQ_HTTP=http://127.0.0.1:7880/v1/default DELAYQ_TOKEN=dq_.. node build/js/examples/worker.js
import { App, Dead, RetryAfter } from "delayq";
import * as v from "valibot";

const Order = v.object({ id: v.number(), cents: v.number() });

const app = new App();
app.task("order.refund", { schema: Order, concurrency: 8, retry: { max: 8, wait: "2s", maxWait: "1h" } }, async (order, cx) => {
  if (order.cents <= 0) throw new Dead(`order ${order.id} has nothing to refund`);
  const answer = await fetch("https://bank.example.org/refunds", {
    method: "POST",
    headers: { "idempotency-key": cx.id, "x-fence": String(cx.fence) },
    body: JSON.stringify(order),
    signal: cx.signal,
  });
  if (answer.status === 429) throw new RetryAfter("1m", "the bank is busy");
  if (!answer.ok) throw new Error(`the bank answered ${answer.status}`);
  cx.followUp("mail.send", { order: order.id, text: "refunded" });
  return { cents: order.cents };
});
await app.run();
