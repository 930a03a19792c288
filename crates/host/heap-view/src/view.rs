//! Answers from an index, and rebuilds it if it is damaged.

use crate::answers::{NoAnswer, answer};
use crate::{Error, Index};
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Builds a new index.
type Make = Box<dyn Fn() -> Result<Index, String> + Send + Sync>;

/// The server's data source.
pub struct View {
    index: Mutex<Arc<Index>>,
    /// The name of the snapshot's file.
    file: String,
    make: Make,
}

impl View {
    /// A view of `index`, for the snapshot file of this name; `make` rebuilds the index if it is damaged.
    pub fn new(index: Index, file: String, make: impl Fn() -> Result<Index, String> + Send + Sync + 'static) -> View {
        View { index: Mutex::new(Arc::new(index)), file, make: Box::new(make) }
    }

    pub(crate) fn answer(&self, question: &str, query: &str) -> Result<Value, NoAnswer> {
        let index = self.index();
        match answer(&index, &self.file, question, query) {
            Err(NoAnswer::Index(Error::Damaged(_) | Error::Read(_))) => {
                answer(&*self.another(&index)?, &self.file, question, query)
            }
            answered => answered,
        }
    }

    fn index(&self) -> Arc<Index> {
        // It is replaced whole, or not at all.
        Arc::clone(&self.index.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An index other than `damaged`. The first caller builds it, and the others wait.
    fn another(&self, damaged: &Arc<Index>) -> Result<Arc<Index>, NoAnswer> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&index, damaged) {
            let made = (self.make)();
            *index = Arc::new(made.map_err(|error| {
                NoAnswer::Failed(format!("the index is damaged, and no other could be made: {error}"))
            })?);
        }
        Ok(Arc::clone(&index))
    }
}

impl fmt::Debug for View {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("View").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Key, Parts, make};
    use remora_heap::layout::Layouts;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn index() -> Index {
        let graph = remora_heap::Builder::new().finish().expect("there is room");
        let key = Key { length: 1, digest: 2 };
        let mut file = tempfile::tempfile().expect("a file");
        make(
            Parts {
                graph: &graph,
                layouts: &Layouts::default(),
                about: About::default(),
                found: &|_| serde_json::Value::Null,
                key,
                goes_on: &|| true,
            },
            &mut file,
        )
        .expect("it is made");
        Index::open(file, key).expect("it was just made")
    }

    #[test]
    fn two_who_find_the_same_damage_have_one_index_made() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let view = View::new(index(), "a".to_owned(), move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(index())
        });
        let damaged = view.index();
        let [first, second] = [(); 2].map(|()| view.another(&damaged).expect("it is made"));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &damaged));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
