-- Brings a file of schema 1 to schema 2: `old_*` are the tables of schema 1, put aside while schema.sql makes new ones.
-- next_number(series, key...) numbers rows as they come. Window functions do the same in ten times the time.

INSERT INTO setting SELECT * FROM old_setting;

INSERT INTO launch
SELECT id, guid, started, project_tag, definition, messages, questions, renders, results, queued, active, complete,
       next_number('tag', project_tag)
FROM old_launch ORDER BY id;

INSERT INTO question SELECT * FROM old_question;

INSERT INTO participant (id, guid, phone) SELECT id, guid, phone FROM old_participant;

INSERT INTO session (id, guid, launch_id, participant_id, created, updated, status, position)
SELECT id, guid, launch_id, participant_id, created, updated, status, position FROM old_session;

INSERT INTO transcript SELECT * FROM old_transcript;

INSERT INTO result
SELECT id, guid, launch_id, participant_id, session_id, position, project_tag, question_tag, answer, response,
       created, updated,
       next_number('launch', launch_id),
       next_number('launch_question', launch_id, question_tag),
       next_number('participant', participant_id),
       next_number('project_tag', project_tag),
       next_number('question_tag', question_tag),
       next_number('tags', project_tag, question_tag)
FROM old_result ORDER BY id;

UPDATE totals SET (messages, questions, renders, results, queued, active, complete) =
    (SELECT messages, questions, renders, results, queued, active, complete FROM old_totals);
