//! The key for a result in the place of the tool.

use std::time::Duration;

use byleave_core::question_view::QuestionView;
use byleave_gate::approver::Reply;
use byleave_terminal::keys::KeyPress;
use byleave_terminal::palette::Palette;
use byleave_terminal::question_dialog::{DialogEvent, DialogSettings, QuestionDialog};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sheets;

const LATER: Duration = Duration::from_secs(60);

fn dialog(sheets: Vec<QuestionView>) -> QuestionDialog {
    let setting = DialogSettings {
        palette: Palette::Plain,
        min_read_time_percent: 100,
        can_go_back: false,
        can_answer_later: false,
        has_one_key_answers: false,
        undo: None,
        now: 0,
    };
    let mut dialog = QuestionDialog::new(sheets, Ok(Vec::new()), setting);
    let area = Rect::new(0, 0, 80, 60);
    for now in [Duration::ZERO, LATER] {
        dialog.draw(area, &mut Buffer::empty(area), now, None);
    }
    dialog
}

fn name_of(dialog: &QuestionDialog) -> Option<&'static str> {
    dialog.choices().into_iter().find(|choice| choice.key == 'r').map(|choice| choice.name)
}

// req: R5, R8
#[test]
fn only_a_single_approval_can_be_answered_in_the_place_of_the_tool() {
    let [ordinary, grave, is_final, checkpoint, release] = sheets::all();
    for sheet in [ordinary.clone(), grave, is_final] {
        assert_eq!(name_of(&dialog(vec![sheet])), Some("result"));
    }
    assert_eq!(name_of(&dialog(vec![checkpoint])), None);
    assert_eq!(name_of(&dialog(vec![release])), Some("redact"));
    assert_eq!(name_of(&dialog(vec![ordinary.clone(), ordinary])), None);
}

// req: R5
#[test]
fn the_written_text_is_the_result() {
    let [ordinary, ..] = sheets::all();
    let mut dialog = dialog(vec![ordinary]);
    for key in [KeyPress::Char('r'), KeyPress::Enter] {
        assert_eq!(dialog.key(LATER, &key), DialogEvent::Stay);
    }
    assert!(dialog.is_typing());
    assert_eq!(dialog.key(LATER, &KeyPress::Control('d')), DialogEvent::Stay, "it is empty");
    for key in [KeyPress::Char('a'), KeyPress::Enter, KeyPress::Char('b')] {
        assert_eq!(dialog.key(LATER, &key), DialogEvent::Stay);
    }
    assert_eq!(dialog.key(LATER, &KeyPress::Control('o')), DialogEvent::Editor("a\nb".into()));
    dialog.set_edited_text(Ok("from the editor\n".into()));
    let reply = Reply::Result { text: "from the editor".into() };
    assert_eq!(dialog.key(LATER, &KeyPress::Control('d')), DialogEvent::Reply(reply));
}
