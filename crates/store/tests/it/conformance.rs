//! What every durable ledger must do, whatever keeps it: each store runs [`suite`].

use std::sync::Arc;

use lease::bucket::{Bucket, Subject, WindowId};
use lease::id::{Epoch, NodeId};
use lease::time::Wall;
use store::ledger::{DurableLedger, LedgerError};
use store::record::{Authorized, Change, Fence, Refusal};

/// A store under test.
pub trait Store {
    /// Opens it anew, as a process that starts would, after the one before has ended.
    async fn reopen(&mut self) -> Arc<dyn DurableLedger>;

    /// Another handle beside the first, as another process would have it; the same one if the store has one owner only.
    async fn beside(&mut self, first: &Arc<dyn DurableLedger>) -> Arc<dyn DurableLedger>;
}

pub fn bucket(window: u64) -> Bucket {
    Bucket {
        subject: Subject(u128::MAX - 5),
        window: WindowId(window),
    }
}

pub fn fence(node: u64, count: u64) -> Fence {
    Fence {
        node: NodeId(node),
        epoch: Epoch {
            count,
            nonce: node.wrapping_mul(31) ^ count,
        },
    }
}

pub fn change(window: u64, expected: Option<Authorized>, to: u64, fence: Fence) -> Change {
    Change {
        bucket: bucket(window),
        expected,
        to,
        fence,
        keep_until: Wall(window.saturating_add(1_000)),
    }
}

/// All of it, on a store that is empty at first.
pub async fn suite(store: &mut impl Store) {
    let ledger = store.reopen().await;
    raises_lowers_and_forgets_nothing(&ledger).await;
    drop(ledger);
    let ledger = store.reopen().await;
    goes_on_where_it_was(&ledger).await;
    recognizes_a_change_whose_answer_was_lost(&ledger).await;
    fences(&ledger).await;
    let other = store.beside(&ledger).await;
    of_two_owners_one_wins(&ledger, &other).await;
    many_owners_never_share_a_unit(&ledger, &other).await;
    removes_what_has_expired(&ledger, &other).await;
}

async fn raises_lowers_and_forgets_nothing(ledger: &Arc<dyn DurableLedger>) {
    let me = fence(1, 1);
    assert_eq!(ledger.load(bucket(1)).await, Ok(None));
    let first = ledger.authorize(change(1, None, 100, me)).await.unwrap();
    assert_eq!((first.total, first.base, first.fence), (100, 0, me));
    assert_eq!(ledger.load(bucket(1)).await, Ok(Some(first)));
    assert_eq!(ledger.load(bucket(2)).await, Ok(None), "of its own");
    let more = ledger
        .authorize(change(1, Some(first), u64::MAX, me))
        .await
        .unwrap();
    assert_eq!(more.total, u64::MAX);
    let less = ledger
        .authorize(change(1, Some(more), 40, me))
        .await
        .unwrap();
    assert_eq!((less.total, less.base), (40, 0));
    assert!(first.version < more.version && more.version < less.version);
    assert_eq!(ledger.load(bucket(1)).await, Ok(Some(less)));
    // What it was before does not count any more, whatever it was.
    for old in [None, Some(first), Some(more)] {
        let refused = ledger.authorize(change(1, old, 41, me)).await;
        let found = Some(less);
        assert_eq!(refused, Err(Refusal::Changed { found }.into()));
    }
    // Zero is a total like any other, and the last window a window.
    let zero = ledger
        .authorize(change(u64::MAX, None, 0, me))
        .await
        .unwrap();
    assert_eq!(ledger.load(bucket(u64::MAX)).await, Ok(Some(zero)));
}

async fn goes_on_where_it_was(ledger: &Arc<dyn DurableLedger>) {
    let found = ledger.load(bucket(1)).await.unwrap().unwrap();
    assert_eq!((found.total, found.base, found.fence), (40, 0, fence(1, 1)));
    let claimed = ledger
        .authorize(change(1, Some(found), 60, fence(1, 2)))
        .await
        .unwrap();
    assert_eq!((claimed.total, claimed.base), (60, 40));
}

async fn recognizes_a_change_whose_answer_was_lost(ledger: &Arc<dyn DurableLedger>) {
    let me = fence(3, 1);
    for expected in [None, ledger.load(bucket(3)).await.unwrap()] {
        let wish = change(3, expected, 10, me);
        let told = ledger.authorize(wish).await.unwrap();
        assert_eq!(ledger.authorize(wish).await, Ok(told));
    }
    let first = ledger.load(bucket(3)).await.unwrap();
    let raise = change(3, first, 20, me);
    let second = ledger.authorize(raise).await.unwrap();
    assert_eq!(ledger.authorize(raise).await, Ok(second));
    // A claim too, and it says what the claimer may not issue.
    let claim = change(3, Some(second), 35, fence(4, 1));
    let claimed = ledger.authorize(claim).await.unwrap();
    assert_eq!(ledger.authorize(claim).await, Ok(claimed));
    assert_eq!((claimed.base, claimed.total), (20, 35));
}

async fn fences(ledger: &Arc<dyn DurableLedger>) {
    let old = fence(5, 1);
    let was = ledger.authorize(change(5, None, 100, old)).await.unwrap();
    let now = ledger
        .authorize(change(5, Some(was), 100, fence(6, 1)))
        .await
        .unwrap();
    assert_eq!((now.base, now.total), (100, 100));
    for to in [0, 100, 200] {
        let refused = ledger.authorize(change(5, Some(was), to, old)).await;
        let found = Some(now);
        assert_eq!(refused, Err(Refusal::Changed { found }.into()), "to {to}");
    }
    let next = ledger
        .authorize(change(5, Some(now), 150, fence(6, 2)))
        .await
        .unwrap();
    let stale = ledger
        .authorize(change(5, Some(next), 200, fence(6, 1)))
        .await
        .unwrap_err();
    let (asked, found) = (fence(6, 1), fence(6, 2));
    assert_eq!(stale, Refusal::Stale { asked, found }.into());
    let mut twin = fence(6, 2);
    twin.epoch.nonce ^= 1;
    let twice = ledger.authorize(change(5, Some(next), 200, twin)).await;
    assert_eq!(twice, Err(Refusal::TwoOfOne(twin).into()));
    let below = ledger
        .authorize(change(5, Some(next), 99, fence(6, 2)))
        .await;
    let refusal = Refusal::BelowBase { to: 99, base: 100 };
    assert_eq!(below, Err(refusal.into()));
    assert_eq!(ledger.load(bucket(5)).await, Ok(Some(next)), "unchanged");
}

async fn of_two_owners_one_wins(one: &Arc<dyn DurableLedger>, other: &Arc<dyn DurableLedger>) {
    for window in 100..130 {
        let (a, b) = tokio::join!(
            one.authorize(change(window, None, 10, fence(1, 3))),
            other.authorize(change(window, None, 10, fence(2, 3))),
        );
        let (won, lost) = match (a, b) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            other => panic!("window {window}: {other:?}"),
        };
        let found = Some(won);
        assert_eq!(lost, Refusal::Changed { found }.into());
        assert_eq!(one.load(bucket(window)).await, Ok(Some(won)));
        assert_eq!(other.load(bucket(window)).await, Ok(Some(won)));
    }
}

/// Owners that claim a bucket from each other all the time: what each may issue, no other may.
async fn many_owners_never_share_a_unit(
    one: &Arc<dyn DurableLedger>,
    other: &Arc<dyn DurableLedger>,
) {
    let mut owners = tokio::task::JoinSet::new();
    for node in 10..16 {
        let ledger = Arc::clone(if node % 2 == 0 { one } else { other });
        owners.spawn(async move {
            let mut mine = Vec::new();
            let mut expected = None;
            for _ in 0..40 {
                let from = expected.map_or(0, |found: Authorized| found.total);
                match ledger
                    .authorize(change(200, expected, from + 7, fence(node, 1)))
                    .await
                {
                    Ok(authorized) => {
                        mine.push((from, authorized.total));
                        expected = Some(authorized);
                    }
                    Err(LedgerError::Refused(Refusal::Changed { found })) => expected = found,
                    Err(error) => panic!("{error}"),
                }
            }
            mine
        });
    }
    let mut ranges: Vec<(u64, u64)> = owners.join_all().await.concat();
    ranges.sort_unstable();
    let last = one.load(bucket(200)).await.unwrap().unwrap();
    assert!(ranges.len() > 1);
    let mut end = 0;
    for (from, to) in ranges {
        assert_eq!(
            (from, to),
            (end, end + 7),
            "without overlap and without gap"
        );
        end = to;
    }
    assert_eq!(last.total, end);
}

async fn removes_what_has_expired(one: &Arc<dyn DurableLedger>, other: &Arc<dyn DurableLedger>) {
    let live = one.load(bucket(129)).await.unwrap();
    assert_eq!(one.sweep(Wall(0)).await, Ok(0), "all are kept still");
    // Windows 100 to 128, and 1, 3 and 5 of before.
    assert_eq!(one.sweep(Wall(1_128)).await, Ok(32));
    assert_eq!(other.sweep(Wall(1_128)).await, Ok(0));
    for window in [1, 3, 5, 100, 128] {
        assert_eq!(other.load(bucket(window)).await, Ok(None));
    }
    assert_eq!(one.load(bucket(129)).await, Ok(live));
    // What is gone is not changed, but may begin anew.
    let me = fence(1, 9);
    let gone = change(129, live, 11, me);
    assert_eq!(one.sweep(Wall(1_129)).await, Ok(1));
    assert_eq!(
        other.authorize(gone).await,
        Err(Refusal::Changed { found: None }.into())
    );
    other.authorize(change(129, None, 11, me)).await.unwrap();
}
