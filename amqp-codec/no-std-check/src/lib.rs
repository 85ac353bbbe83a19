//! The codec in a program without std.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::panic::PanicInfo;

use amqp_codec::basic::{self, Properties};
use amqp_codec::{Assembler, Frame, Limits, RawFrame, content, short, table};
use linked_list_allocator::LockedHeap;

/// Without memory: the program is built, not run.
#[global_allocator]
static HEAP: LockedHeap = LockedHeap::empty();

/// std has one too, and there can be only one.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Encodes, decodes and puts together a message: a use of each part of the codec.
pub extern "C" fn round_trip() -> bool {
    let publish = basic::Publish {
        routing_key: short!("key"),
        ..Default::default()
    };
    let headers = table! { "a" => 1, "b" => "text" };
    let properties = Properties {
        headers: Some(headers.into()),
        ..Properties::EMPTY
    };
    let mut wire = Vec::new();
    if content::encode(1, &publish, &properties, b"body", 4096, &mut wire).is_err() {
        return false;
    }
    let limits = Limits::default();
    let mut assembler = Assembler::new();
    let mut rest = &wire[..];
    while let Ok(Some((raw, len))) = RawFrame::parse(rest, &limits) {
        rest = &rest[len..];
        let content = match raw.decode(&limits) {
            Ok(Frame::Method { method, .. }) => {
                assembler.start(method.into_owned(), &[]).map(|()| None)
            }
            Ok(Frame::Header { header, .. }) => assembler.header(&header, raw.payload, &limits),
            Ok(Frame::Body { payload, .. }) => assembler.body(payload, None),
            Ok(Frame::Heartbeat) | Err(_) => return false,
        };
        match content {
            Ok(Some(content)) => return content.into_body() == "body",
            Ok(None) => {}
            Err(_) => return false,
        }
    }
    false
}
