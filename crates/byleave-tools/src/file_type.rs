//! Recognizes a file type by its first bytes. It is only for messages; no decision may depend on it.

use std::fmt;

use rustix::fs::FileType;

/// The type of a file by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A known type.
    Known {
        /// Its name in words.
        name: &'static str,
        /// Advice for the model.
        advice: &'static str,
    },
    /// Probably text in another encoding.
    OtherEncoding,
    /// Not text.
    Binary,
}

const IMAGE: &str = "use an image tool, or get its size and type with `file` in bash";
const PACKED: &str = "list its content with bash";
const WIDE: &str = "convert it with `iconv -f UTF-16 -t UTF-8` in bash";
const OBJECT: &str = "inspect it with `file`, `strings` or `objdump` in bash";

/// Magic bytes, the type, and what to do with it.
const BEGINNINGS: [(&[u8], &str, &str); 16] = [
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)", IMAGE),
    (b"\xff\xd8\xff", "an image (JPEG)", IMAGE),
    (b"GIF8", "an image (GIF)", IMAGE),
    (b"BM", "an image (BMP)", IMAGE),
    (b"II*\0", "an image (TIFF)", IMAGE),
    (b"MM\0*", "an image (TIFF)", IMAGE),
    (b"%PDF-", "a PDF document", "convert it with `pdftotext` in bash"),
    (b"PK\x03\x04", "a zip archive", PACKED),
    (b"\x1f\x8b", "compressed (gzip)", PACKED),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd)", PACKED),
    (b"\xfd7zXZ\0", "compressed (xz)", PACKED),
    (b"BZh", "compressed (bzip2)", PACKED),
    (b"\x7fELF", "a program (ELF)", OBJECT),
    (b"SQLite format 3\0", "a database (SQLite)", "inspect it with `sqlite3` in bash"),
    (b"\xff\xfe", "text in UTF-16", WIDE),
    (b"\xfe\xff", "text in UTF-16", WIDE),
];

/// Returns the type of these bytes.
pub(crate) fn detect_kind(bytes: &[u8]) -> FileKind {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return FileKind::Known { name: "an image (WebP)", advice: IMAGE };
    }
    if let Some((_, name, todo)) = BEGINNINGS.iter().find(|(start, ..)| bytes.starts_with(start)) {
        return FileKind::Known { name, advice: todo };
    }
    if bytes.iter().take(8_192).any(|byte| *byte == 0) { FileKind::Binary } else { FileKind::OtherEncoding }
}

/// Returns the name of a type that is neither a file nor a directory nor a link.
pub(crate) fn describe_file_type(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}

impl FileKind {
    /// Returns what a model can do with it.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Known { advice: todo, .. } => todo,
            Self::OtherEncoding => {
                "convert it with `iconv -f LATIN1 -t UTF-8` in bash, or from another encoding"
            }
            Self::Binary => OBJECT,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known { name, .. } => name,
            Self::OtherEncoding => "text in another encoding",
            Self::Binary => "binary",
        })
    }
}
