//! What an owner says: per bucket the running total that this ledger has issued to a holder's newest record.

use crate::bucket::Bucket;
use crate::holder::report::{Say, in_pieces};
use crate::id::NodeId;
use crate::message::{Chunk, Grant, GrantRecord};
use crate::turn::Turn;

use super::Owner;

impl Owner {
    /// Whether there is anything to tell a holder.
    pub fn has_news(&self, node: NodeId) -> bool {
        self.holders
            .get(&node)
            .is_some_and(|holder| holder.out.has_news())
    }

    pub fn is_absent(&self, node: NodeId, turn: &Turn<'_>) -> bool {
        self.holders
            .get(&node)
            .is_none_or(|holder| holder.is_absent(turn))
    }

    /// Makes a grant for a holder whose incarnation is known, in as many pieces as it needs.
    pub fn grant(&mut self, node: NodeId, say: Say<'_>, turn: &mut Turn<'_>) -> Vec<Grant> {
        let now = turn.time.instant;
        let (ledger, authority_from) = (self.ledger_id, self.authority_from);
        let holder = self.holder(node);
        let Some(holder_epoch) = holder.epoch else {
            return Vec::new();
        };
        let (seq, since, buckets) = match say {
            Say::All => holder.out.full(now),
            Say::Urgent(buckets) => {
                let (seq, since) = holder.out.urgent(buckets, now);
                (seq, since, buckets.to_vec())
            }
            Say::Probe => {
                let (seq, since) = holder.out.probe(now);
                (seq, since, Vec::new())
            }
        };
        let acked_report = holder.into.stored();
        let records: Vec<GrantRecord> = buckets
            .iter()
            .filter_map(|bucket| self.grant_record(node, *bucket))
            .collect();
        turn.stats.grant_records_sent += records.len() as u64;
        let header = Grant {
            seq,
            chunk: Chunk { index: 0, count: 1 },
            since,
            holder_epoch,
            ledger,
            authority_from,
            acked_report,
            records: Vec::new(),
        };
        in_pieces(records, turn.config.most_records)
            .into_iter()
            .map(|(chunk, records)| Grant {
                chunk,
                records,
                ..header.clone()
            })
            .collect()
    }

    fn grant_record(&self, node: NodeId, bucket: Bucket) -> Option<GrantRecord> {
        let entry = self.ledger.get(&bucket)?;
        let account = &entry.accounts[entry.place(node)?];
        let epoch = self.holders.get(&node)?.epoch?;
        // Generations are counted anew in each incarnation: a dead one's record must not be taken for a live one's.
        let life = account.newest().filter(|life| life.epoch == epoch)?;
        Some(GrantRecord {
            bucket,
            generation: life.generation,
            granted_total: life.granted,
            recall_to: account.recall_to,
            exhausted: account.exhausted,
            fleet_remaining: entry.remaining(),
            allowance: entry.allowance(),
        })
    }
}
