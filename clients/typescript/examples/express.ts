// Sends from an HTTP server, and web hooks in it. The types of express are left out, so that the example needs nothing.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { App, Webhook } from "delayq";

const app = new App();
const hook = new Webhook<{ id: number }>(process.env.WEBHOOK_SECRET ?? "whsec_c2VjcmV0").middleware(async ({ message }) => {
  console.log(`cancel order ${message.id}`);
});

// With express: server.post("/hooks/cancel", hook); server.post("/orders/:id", order);
async function order(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const id = Number(request.url!.split("/").pop());
  const { dueAt } = await app.send("order.cancel", { id }, { id: `order-${id}`, after: "30m", onConflict: "keep" });
  response.end(`order ${id} is cancelled at ${dueAt?.toISOString() ?? "the time that was set before"}\n`);
}

createServer((request, response) => {
  const answer = request.url === "/hooks/cancel" ? hook(request, response) : order(request, response);
  answer.catch((error) => response.writeHead(500).end(String(error)));
}).listen(Number(process.env.PORT ?? 3000));
