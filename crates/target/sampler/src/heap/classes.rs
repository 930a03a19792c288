//! The classes of a walk, and their numbers in the stream.

/// Numbers of classes, by ClassID and by the first word of their objects.
pub(crate) struct Classes<'a> {
    /// Open addressing: a key, then the number plus 1. With 0 there, the slot is free.
    table: &'a mut [[u64; 2]],
    ids: &'a mut [u64],
    count: usize,
    sent: usize,
}

impl<'a> Classes<'a> {
    /// No classes yet.
    pub(crate) fn new(table: &'a mut [[u64; 2]], ids: &'a mut [u64]) -> Classes<'a> {
        Classes { table, ids, count: 0, sent: 0 }
    }

    fn place(&self, key: u64) -> Option<usize> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        for _ in 0..self.table.len() {
            let held = self.table.get(at)?;
            if held[1] == 0 || held[0] == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The number of a class, by its ClassID or the first word of its objects.
    pub(crate) fn number_of(&self, key: u64) -> Option<u64> {
        let [_, number] = *self.table.get(self.place(key)?)?;
        number.checked_sub(1)
    }

    /// Adds a class and returns its number; `None` if there is no room.
    pub(crate) fn add(&mut self, id: u64) -> Option<u64> {
        let place = self.place(id)?;
        *self.ids.get_mut(self.count)? = id;
        *self.table.get_mut(place)? = [id, self.count as u64 + 1];
        self.count += 1;
        Some(self.count as u64 - 1)
    }

    /// Adds another key of a class, if the table has room.
    pub(crate) fn also(&mut self, key: u64, number: u64) {
        if let Some(held) = self.place(key).and_then(|place| self.table.get_mut(place)) {
            *held = [key, number + 1];
        }
    }

    /// Adds a class that another class names, if it is new.
    pub(crate) fn meet(&mut self, id: u64) {
        if id != 0 && self.number_of(id).is_none() {
            self.add(id);
        }
    }

    /// The number of the class that [`Classes::next_undescribed`] returned last.
    pub(crate) fn last_sent(&self) -> u64 {
        self.sent.saturating_sub(1) as u64
    }

    /// The next class that was not written yet.
    pub(crate) fn next_unsent(&mut self) -> Option<u64> {
        let id = (self.sent < self.count).then(|| self.ids.get(self.sent).copied()).flatten()?;
        self.sent += 1;
        Some(id)
    }
}
