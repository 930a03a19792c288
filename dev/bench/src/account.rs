//! Totals over all recordings of a run: samples taken, delivered and lost, receipts, and the durations of detaches.

use crate::statistics::{largest, median};
use crate::table::Row;
use remora_profile::{Loss, LossCause};
use serde_json::json;

/// Detaches needed for a median.
const ENOUGH: usize = 20;

/// The totals so far.
#[derive(Debug, Clone, Default)]
pub struct Account {
    sum: Loss,
    recordings: u64,
    /// Recordings whose samples do not add up.
    inexact: u64,
    clean: u64,
    unclean: Vec<String>,
    /// From the request to the unmapped library, milliseconds.
    detaches: Vec<f64>,
}

impl Account {
    /// Adds a recording that ended before its target did.
    ///
    /// The collector counts missing samples as lost with the target's end. No target ended here, so such a loss is a hole in the totals.
    pub fn add(&mut self, loss: &Loss) {
        self.recordings += 1;
        let (taken, accounted) = (loss.taken, loss.delivered + explained(loss));
        self.inexact += u64::from(taken != accounted);
        self.sum.taken += taken;
        self.sum.delivered += loss.delivered;
        for (cause, count) in &loss.lost {
            self.sum.lose(*cause, *count);
        }
    }

    /// Adds the receipt of a detach: leftovers and duration.
    pub fn add_detach(&mut self, left: Option<String>, milliseconds: f64) {
        match left {
            None => self.clean += 1,
            Some(left) => self.unclean.push(left),
        }
        self.detaches.push(milliseconds);
    }

    /// The totals as rows; none if nothing was added.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.recordings > 0 {
            rows.push(self.samples_row());
        }
        if let (Some(median), Some(largest)) = (median(&self.detaches), largest(&self.detaches)) {
            rows.push(self.detach_row(median, largest));
            rows.push(self.receipts_row());
        }
        rows
    }

    fn samples_row(&self) -> Row {
        let Loss { taken, delivered, .. } = self.sum;
        let causes: Vec<String> =
            self.sum.lost.iter().map(|(cause, count)| format!("{count} {}", cause.name())).collect();
        let lost = if causes.is_empty() { "0 lost".to_owned() } else { format!("lost: {}", causes.join(", ")) };
        let measured = format!(
            "{taken} taken, {delivered} delivered, {lost}; {} of {} recordings exact",
            self.recordings - self.inexact,
            self.recordings
        );
        let numbers = json!({
            "taken": taken, "delivered": delivered, "recordings": self.recordings, "inexact": self.inexact,
            "lost": self.sum.lost.iter().map(|(cause, count)| json!({ "cause": cause.name(), "count": count })).collect::<Vec<_>>(),
        });
        Row::shown("samples taken = delivered + lost, over all recordings", measured)
            .against("exactly", self.inexact == 0)
            .numbers(numbers)
    }

    fn detach_row(&self, median: f64, largest: f64) -> Row {
        let count = self.detaches.len();
        Row::shown(
            "detach request to unmapped, over all recordings",
            format!("median {median:.0} ms, longest {largest:.0} ms, of {count}"),
        )
        .against("median 320 ms or less", (count >= ENOUGH).then_some(median <= 320.0))
        .numbers(json!({ "median_ms": median, "longest_ms": largest, "all_ms": self.detaches }))
    }

    fn receipts_row(&self) -> Row {
        let all = self.clean + self.unclean.len() as u64;
        let first = self.unclean.first().map(|left| format!("; the first of the others: {left}")).unwrap_or_default();
        Row::shown("receipts, over all recordings", format!("{} of {all} clean{first}", self.clean))
            .against("all clean", self.unclean.is_empty())
            .numbers(json!({ "clean": self.clean, "unclean": self.unclean }))
    }
}

/// Samples lost for a cause that is possible while the target lives.
fn explained(loss: &Loss) -> u64 {
    loss.lost.iter().filter(|(cause, _)| *cause != LossCause::TargetEnded).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(taken: u64, delivered: u64, lost: &[(LossCause, u64)]) -> Loss {
        Loss { taken, delivered, lost: lost.to_vec(), ..Loss::default() }
    }

    fn verdicts(account: &Account) -> Vec<Option<bool>> {
        account.rows().iter().map(|row| row.met).collect()
    }

    #[test]
    fn an_account_is_exact_only_if_every_recording_is() {
        let mut account = Account::default();
        account.add(&loss(10, 8, &[(LossCause::RingFull, 2)]));
        assert_eq!(verdicts(&account), [Some(true)]);
        // An excess here and a deficit there must not cancel out.
        account.add(&loss(10, 9, &[]));
        account.add(&loss(10, 11, &[]));
        assert_eq!(verdicts(&account), [Some(false)]);
        assert!(account.rows()[0].measured.contains("1 of 3 recordings exact"), "{:?}", account.rows());
    }

    #[test]
    fn what_is_booked_on_an_end_that_did_not_happen_is_a_hole() {
        let mut account = Account::default();
        account.add(&loss(10, 9, &[(LossCause::TargetEnded, 1)]));
        assert_eq!(verdicts(&account), [Some(false)]);
    }

    #[test]
    fn receipts_and_times_count_over_all() {
        let mut account = Account::default();
        assert!(account.rows().is_empty());
        (0..20).for_each(|_| account.add_detach(None, 301.0));
        account.add_detach(None, 900.0);
        assert_eq!(verdicts(&account), [Some(true), Some(true)]);
        account.add_detach(Some("a mapping".into()), 301.0);
        assert_eq!(verdicts(&account), [Some(true), Some(false)]);
        assert!(account.rows()[1].measured.contains("a mapping"));
    }
}
