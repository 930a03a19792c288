//! Static fields: which there are the modules' files say, where they are the copy of the process is asked when it has walked.
//!
//! A type is asked about by one of its methods, which the runtime knows only if the class is loaded: nothing is loaded for being asked
//! about. One without methods is asked about if there are objects of it.
//!
//! Of a type with parameters each instantiation has fields of its own, and the runtime tells none of them: it answers that the class is not
//! initialized, since it looks at the definition in its place (`GetAppDomainStaticAddress` in `vm/proftoeeinterfaceimpl.cpp`; seen on 3.1,
//! 8, 9 and 10). So these are not asked about.

use crate::heap::Classes;
use crate::shared_memory::SharedMemory;
use remora_symbols::{ManagedImage, StaticFields};
use remora_wire::Malformed;
use remora_wire::heap::ClassFacts;
use remora_wire::heap::statics::{Answer, Asked, Owner, Place, answer, question};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Answers that are taken: no honest copy has more.
const MOST_ANSWERS: usize = 1 << 20;

/// What the runtime answers of a class that is not initialized (`CORPROF_E_DATAINCOMPLETE` in `inc/corerror.xml`): nothing has been
/// stored in its fields yet.
const NOT_INITIALIZED: u32 = 0x8013_1351;

/// A field whose place was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// Index of the module that defines its class.
    pub(crate) module: u32,
    /// Token of the class there.
    pub(crate) type_token: u32,
    /// Number of the class, where it was known before.
    pub(crate) class: Option<u32>,
    /// mdFieldDef.
    pub(crate) field: u32,
    /// Whether its signature says that it holds a reference.
    pub(crate) is_reference: bool,
    /// Where it is.
    pub(crate) place: Place,
}

/// Questions and answers of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    /// Whether all that fields hold may be read, or references alone.
    pub(crate) reads_values: bool,
    /// Modules that have not been read yet, by id and index; `None` before the first.
    modules: Option<Vec<(u64, u32)>>,
    questions: Vec<Question>,
    words: Vec<u64>,
    /// Static fields of modules that were read before they were wanted.
    ahead: HashMap<u32, Vec<StaticFields>>,
    /// Fields of types that are asked about by their classes.
    by_class: HashMap<(u32, u32), Vec<(u32, bool)>>,
    is_asked: bool,
    /// Fields that there was no room to ask about.
    unasked: u64,
    told: Vec<Told>,
    /// Fields of classes that are initialized, of which the runtime does not say where they are.
    untold: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct Question {
    module: u32,
    type_token: u32,
    class: Option<u32>,
    fields: Vec<(u32, bool)>,
}

impl Statics {
    pub(crate) fn new(reads_values: bool) -> Statics {
        Statics { reads_values, ..Statics::default() }
    }

    /// Whether all questions have been answered.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What was answered.
    pub(crate) fn told(&self) -> &[Told] {
        &self.told
    }

    /// What is to be said of what is not known.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let counted = [
            (self.unasked, "were not asked about: there was no room"),
            (self.untold, "are not known: the runtime does not say where they are"),
        ];
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} static fields {what}"))
    }

    /// Whether all that could be asked about was answered.
    pub(crate) fn are_whole(&self) -> bool {
        self.has_ended && self.unasked == 0 && self.untold == 0
    }

    /// See [`Classes::ask_on`].
    pub(crate) fn ask_on(&mut self, classes: &mut Classes, memory: &SharedMemory, is_walked: bool) -> bool {
        if self.is_asked {
            return false;
        }
        let rest = self.modules.get_or_insert_with(|| {
            let known = classes.modules.iter().filter_map(|(id, index)| Some((*id, (*index)?)));
            let mut known: Vec<(u64, u32)> = known.collect();
            // Taken from the end: in the order in which they were told.
            known.sort_by_key(|(_, index)| Reverse(*index));
            known
        });
        match rest.pop() {
            Some((id, index)) => self.read_module(classes, id, index),
            None if is_walked => {
                self.ask_about_classes(classes);
                memory.ask(&self.words);
                self.words = Vec::new();
                self.is_asked = true;
            }
            None => return false,
        }
        true
    }

    /// Looks for the static fields of a module before they are wanted.
    pub(crate) fn read_ahead(&mut self, module: u32, image: &ManagedImage) {
        self.ahead.insert(module, image.static_fields().collect());
    }

    fn read_module(&mut self, classes: &mut Classes, id: u64, module: u32) {
        let known = self.ahead.remove(&module);
        let Some(all) = known.or_else(|| Some(classes.names.image(module)?.static_fields().collect())) else { return };
        for of in all {
            match of.method {
                Some(method) => {
                    let question = Question { module, type_token: of.type_token, class: None, fields: Vec::new() };
                    self.ask(question, Owner::OfMethod { module: id, method }, &of.fields);
                }
                None => _ = self.by_class.insert((module, of.type_token), of.fields),
            }
        }
    }

    /// The types that have no method to ask by, as far as they are known as classes.
    fn ask_about_classes(&mut self, classes: &Classes) {
        let ids: HashMap<u32, u64> = classes.by_id.iter().map(|(id, class)| (*class, *id)).collect();
        for class in 0..classes.count() {
            let Some(ClassFacts::Plain { module, token, .. }) = classes.facts(class) else {
                continue;
            };
            let Some(Some(module)) = classes.modules.get(module) else { continue };
            let Some(fields) = self.by_class.remove(&(*module, *token)) else { continue };
            let Some(id) = ids.get(&class) else { continue };
            let question = Question { module: *module, type_token: *token, class: Some(class), fields: Vec::new() };
            self.ask(question, Owner::Class(*id), &fields);
        }
    }

    fn ask(&mut self, mut asking: Question, owner: Owner, fields: &[(u32, bool)]) {
        let reads = |is_reference| self.reads_values || is_reference;
        let asked: Vec<Asked> =
            fields.iter().map(|(field, is_reference)| Asked { field: *field, reads: reads(*is_reference) }).collect();
        if self.words.len() + asked.len() + 2 > SharedMemory::room_for_questions() {
            self.unasked += asked.len() as u64;
            return;
        }
        self.words.extend(question(owner, &asked));
        asking.fields = fields.to_vec();
        self.questions.push(asking);
    }

    /// A piece of the copy's answers.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        match answer(bytes)? {
            Answer::End(questions) => self.has_ended = questions == self.questions.len() as u64,
            Answer::Fields { question, first, places } => {
                let question = usize::try_from(question).ok().and_then(|at| self.questions.get(at)).ok_or(Malformed)?;
                let first = usize::try_from(first).map_err(|_| Malformed)?;
                let fields = question.fields.get(first..).and_then(|rest| rest.get(..places.len())).ok_or(Malformed)?;
                if self.told.len() + fields.len() > MOST_ANSWERS {
                    return Err(Malformed);
                }
                let Question { module, type_token, class, .. } = *question;
                for ((field, is_reference), place) in fields.iter().zip(places) {
                    let (field, is_reference) = (*field, *is_reference);
                    match place {
                        Ok(place) => self.told.push(Told { module, type_token, class, field, is_reference, place }),
                        Err(NOT_INITIALIZED) => {}
                        Err(_) => self.untold += 1,
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_wire::heap::written;

    fn asked() -> Statics {
        let mut statics = Statics::new(false);
        for type_token in [0x0200_0002, 0x0200_0003] {
            let question = Question { module: 1, type_token, class: None, fields: Vec::new() };
            let owner = Owner::OfMethod { module: 0x7f00, method: 0x0600_0001 };
            statics.ask(question, owner, &[(0x0400_0001, true), (0x0400_0002, false)]);
        }
        statics
    }

    #[test]
    fn gch_06_answers_belong_to_the_fields_that_were_asked_about() {
        let mut statics = asked();
        assert_eq!(statics.answer(&written(&[1, 1, 1, 0, 0x9000, 0])), Ok(()));
        let told: Vec<_> = statics.told().iter().map(|told| (told.type_token, told.field)).collect();
        assert_eq!((told, statics.has_ended()), (vec![(0x0200_0003, 0x0400_0002)], false));
        assert_eq!(statics.answer(&written(&[0, 2])), Ok(()));
        assert!(statics.has_ended());
    }

    #[test]
    fn gch_06_answers_to_what_was_not_asked_are_none() {
        for numbers in [&[1, 2, 0, 5][..], &[1, 0, 2, 5], &[1, 0, 0, 5, 5, 5], &[1, u64::MAX, 0], &[9]] {
            assert_eq!(asked().answer(&written(numbers)), Err(Malformed), "{numbers:?}");
        }
        let mut statics = asked();
        assert_eq!((statics.answer(&written(&[0, 1])), statics.has_ended()), (Ok(()), false), "one was not read");
    }

    #[test]
    fn gch_06_questions_for_which_there_is_no_room_are_counted() {
        let mut statics = asked();
        let many = vec![(0x0400_0001, true); SharedMemory::room_for_questions()];
        let question = Question { module: 1, type_token: 0x0200_0004, class: None, fields: Vec::new() };
        statics.ask(question, Owner::Class(7), &many);
        let note = statics.notes().next().expect("something was not asked");
        assert!(note.starts_with(&format!("{} static fields were not asked about", many.len())), "{note}");
        assert_eq!(statics.questions.len(), 2);
    }
}
