//! The books of the order service: tables that delayq does not know.

use delayq_tests::postgres_server::PostgresServer;

/// Makes the books. Nothing in them keeps an order from being paid twice: the run would show it.
pub(crate) const CREATE: &str = "CREATE TABLE orders (id text PRIMARY KEY, is_meant boolean); \
    CREATE TABLE payments (id text, fence bigint); CREATE TABLE cancels (id text, what text)";

/// Tasks that have not ended.
pub(crate) const OPEN: &str = "SELECT count(*) FROM delayq.tasks WHERE state < 2";

/// What may not be in the books: a name, and a query that counts.
const MISTAKES: [(&str, &str); 7] = [
    (
        "orders that were not committed",
        "SELECT count(*) FROM orders WHERE NOT is_meant",
    ),
    (
        "payments without an order",
        "SELECT count(*) FROM payments LEFT JOIN orders USING (id) WHERE orders.id IS NULL",
    ),
    (
        "orders that were paid twice",
        "SELECT count(*) FROM (SELECT id FROM payments GROUP BY id HAVING count(*) > 1) p",
    ),
    (
        "orders that were neither paid nor cancelled",
        "SELECT count(*) FROM orders WHERE id NOT IN (SELECT id FROM payments) \
         AND id NOT IN (SELECT id FROM cancels)",
    ),
    (
        "orders that were cancelled and paid",
        "SELECT count(*) FROM payments JOIN cancels USING (id) WHERE what = 'cancelled'",
    ),
    (
        "dead tasks",
        "SELECT count(*) FROM delayq.tasks WHERE state = 2",
    ),
    (
        "remembered tasks without an order",
        "SELECT count(*) FROM delayq.tasks LEFT JOIN orders USING (id) WHERE orders.id IS NULL",
    ),
];

/// Counts the mistakes in the books; a line for each kind that there is.
pub(crate) fn mistakes(server: &PostgresServer) -> Vec<String> {
    let found = MISTAKES.iter().map(|(name, count)| {
        let count = server.sql("postgres", count);
        (count != "0").then(|| format!("{count} {name}"))
    });
    found.flatten().collect()
}

/// What the run has done, for people.
pub(crate) fn summary(server: &PostgresServer) -> String {
    let count = |what: &str| server.sql("postgres", &format!("SELECT count(*) FROM {what}"));
    let orders = count("orders");
    let paid = count("payments");
    let cancelled = count("cancels");
    let repeated = count("delayq.tasks WHERE failures > 1");
    format!(
        "{orders} orders, {paid} paid, {cancelled} cancels, {repeated} remembered tasks with more \
         than one attempt"
    )
}
