//! A shop on the framework summer: at its start it places an order, which is cancelled 2 s later
//! unless it is paid. Ctrl-C ends it cleanly. Tasks are in `orders.sqlite`, or in the file named by
//! the variable `ORDERS`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use anyhow::Context;
use delayq_plugin::{Component, TaskResult, TaskSubmitService, seconds, task_worker};
use delayq_summer::DelayqPlugin;
use summer::App;
use summer::error::Result;
use summer::plugin::{ComponentRegistry, MutableComponentRegistry, Service};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/orders.toml");

/// A component of the application, used by the worker.
#[derive(Clone)]
struct Stock {
    place: &'static str,
}

impl Stock {
    fn put_back(&self, order: u32) {
        println!("order {order} was not paid in time: back to {}", self.place);
    }
}

/// A service: summer builds it from the components.
#[derive(Clone, Service)]
struct Shop {
    #[inject(component)]
    tasks: TaskSubmitService,
}

impl Shop {
    async fn place(&self, order: u32) -> delayq_plugin::Result<()> {
        let job = cancel_order::job(&order)?.id(format!("order-{order}"));
        let receipt = self.tasks.send(job.after(seconds(2))).await?;
        println!("order {order} is placed: {:?}", receipt.outcome);
        Ok(())
    }
}

#[task_worker(type = "order.cancel")]
async fn cancel_order(order: delayq_plugin::Json<u32>, stock: Component<Stock>) -> TaskResult {
    stock.put_back(*order);
    Ok(())
}

async fn place_the_first(app: Arc<App>) -> Result<String> {
    let shop = app.try_get_component::<Shop>()?;
    shop.place(42).await.context("the order cannot be placed")?;
    Ok("the first order is placed".to_owned())
}

#[tokio::main]
async fn main() {
    App::new()
        .use_config_file(CONFIG)
        .add_component(Stock { place: "shelf 7" })
        .add_plugin(DelayqPlugin::default().component::<Stock>())
        .add_scheduler(|app| Box::new(place_the_first(app)))
        .run()
        .await;
}
