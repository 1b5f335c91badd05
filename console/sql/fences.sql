-- Whose rows these are, and what never changes.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'console_message', 'console_notice', 'console_noticecursor', 'console_noticesettings', 'console_noticewish',
    'console_recordedconversation', 'console_recordedmessage', 'console_recordedword', 'console_recording',
    'console_savedview', 'console_sighting']::regclass[]) each;
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'console_recordedconversation', 'console_recordedmessage', 'console_recordedword', 'console_recording',
    'console_sighting']::regclass[]) each;
