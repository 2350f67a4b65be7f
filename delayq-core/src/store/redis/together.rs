//! Several calls at the same time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Runs the calls at the same time; their answers come in their order.
pub(super) async fn together<T>(
    calls: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    enum Call<F, T> {
        Open(Pin<Box<F>>),
        Answered(T),
    }
    let mut calls: Vec<_> = calls
        .into_iter()
        .map(|call| Call::Open(Box::pin(call)))
        .collect();
    poll_fn(|cx| {
        let mut is_open = false;
        for call in &mut calls {
            if let Call::Open(future) = call {
                match future.as_mut().poll(cx) {
                    Poll::Ready(answer) => *call = Call::Answered(answer),
                    Poll::Pending => is_open = true,
                }
            }
        }
        if is_open {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let answers = calls.into_iter().filter_map(|call| match call {
        Call::Open(_) => None,
        Call::Answered(answer) => Some(answer),
    });
    answers.collect()
}
