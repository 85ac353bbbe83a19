use alloc::vec::Vec;

use super::value::{self, Shape};
use crate::primitive::{Parsed, be_u8, fail, long_bytes, short_str, take};
use crate::{DecodeError, DecodeErrorKind, Limits};

/// Checks the content of a table, everything inside it included, without recursion.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "what a parser leaves, or enters, is a part of what it was given"
)]
pub(super) fn check_table(content: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let mut walk = Walk {
        outer: Stack::new(),
        depth: 1,
        level: Level {
            end: content.len(),
            array: false,
        },
        entries: 0,
    };
    let mut at = 0;
    loop {
        while at == walk.level.end {
            match walk.leave() {
                true => {}
                false => return Ok(()),
            }
        }
        let rest = content.get(at..walk.level.end).unwrap_or_default();
        match walk.entry(rest, limits) {
            // An entered container ends before the one it is in: what is left counts from the old end.
            Ok((rest, entered)) => {
                let next = walk.level.end - rest.len();
                at = match entered {
                    None => next,
                    Some((len, array)) => {
                        walk.enter(Level { end: next, array });
                        next - len
                    }
                };
            }
            Err(nom::Err::Error(error) | nom::Err::Failure(error)) => {
                let offset = (walk.level.end - error.rest.len()) as u64;
                return Err(DecodeError {
                    kind: error.kind,
                    offset,
                });
            }
            Err(nom::Err::Incomplete(_)) => {
                return Err(DecodeError {
                    kind: DecodeErrorKind::Truncated,
                    offset: at as u64,
                });
            }
        }
    }
}

struct Walk {
    outer: Stack,
    depth: u32,
    level: Level,
    entries: u32,
}

/// A table or array that is being walked through: where it ends in the outermost content.
#[derive(Clone, Copy)]
struct Level {
    end: usize,
    array: bool,
}

impl Walk {
    /// One entry; for a table or array as its value, the length of its content and whether it is an array.
    fn entry<'a>(&mut self, rest: &'a [u8], limits: &Limits) -> Parsed<'a, Option<(usize, bool)>> {
        if self.depth > u32::from(limits.table_depth) {
            return fail(rest, DecodeErrorKind::TableTooDeep(limits.table_depth));
        }
        if self.entries >= limits.table_entries {
            return fail(rest, DecodeErrorKind::TableTooLong(limits.table_entries));
        }
        self.entries = self.entries.saturating_add(1);
        let rest = match self.level.array {
            true => rest,
            false => short_str(rest)?.0,
        };
        let (after_tag, tag) = be_u8(rest)?;
        match value::shape(tag) {
            Some(Shape::Fixed(len)) => {
                let (rest, _) = take(after_tag, len)?;
                Ok((rest, None))
            }
            Some(Shape::Bytes) => Ok((long_bytes(after_tag)?.0, None)),
            Some(Shape::Table | Shape::Array) => {
                let (rest, content) = long_bytes(after_tag)?;
                Ok((rest, Some((content.len(), tag == b'A'))))
            }
            None => fail(rest, DecodeErrorKind::UnknownFieldType(tag)),
        }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "`entry` has found the depth to be within a limit of 16 bits"
    )]
    fn enter(&mut self, level: Level) {
        self.outer.push(core::mem::replace(&mut self.level, level));
        self.depth += 1;
    }

    /// Back to the enclosing container; false when there is none.
    fn leave(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else {
            return false;
        };
        self.level = outer;
        self.depth = self.depth.saturating_sub(1);
        true
    }
}

/// Enclosing containers: the usual few in place, more on the heap. Each takes at least five bytes of input.
struct Stack {
    few: [Level; 6],
    len: usize,
    more: Vec<Level>,
}

impl Stack {
    fn new() -> Self {
        Self {
            few: [Level {
                end: 0,
                array: false,
            }; 6],
            len: 0,
            more: Vec::new(),
        }
    }

    fn push(&mut self, level: Level) {
        match self.few.get_mut(self.len) {
            Some(slot) => {
                *slot = level;
                self.len = self.len.saturating_add(1);
            }
            None => self.more.push(level),
        }
    }

    fn pop(&mut self) -> Option<Level> {
        if let Some(level) = self.more.pop() {
            return Some(level);
        }
        self.len = self.len.checked_sub(1)?;
        self.few.get(self.len).copied()
    }
}
