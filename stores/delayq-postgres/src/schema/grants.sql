-- The rights of three groups of roles, where these exist. A role gets them as a member of a group:
-- GRANT {s}_sender TO shop. Nobody else may call a function.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {s} FROM PUBLIC;
DO $$
DECLARE
    c_calls CONSTANT text := '{s}.send(text, text, bytea, jsonb), {s}.send(text, text, text, jsonb), '
        || '{s}.send(text, text, jsonb, jsonb), {s}.send_all(jsonb), {s}.cancel(text, text, jsonb), '
        || '{s}.reschedule(text, text, jsonb), {s}.update(text, text, bytea, jsonb), '
        || '{s}.update(text, text, text, jsonb), {s}.update(text, text, jsonb, jsonb), '
        || '{s}.within_v1(text)';
    c_ends CONSTANT text := '{s}.done_within_v1(text)';
    c_reads CONSTANT text := '{s}.find(text, text, jsonb), {s}.version()';
BEGIN
    -- Sends and changes tasks by the functions, and sees no table.
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{s}_sender') THEN
        GRANT USAGE ON SCHEMA {s} TO {s}_sender;
        EXECUTE 'GRANT EXECUTE ON FUNCTION ' || c_calls || ', ' || c_reads || ' TO {s}_sender';
    END IF;
    -- Runs a plugin, a server or the command line, without a right to change the schema.
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{s}_worker') THEN
        GRANT USAGE ON SCHEMA {s} TO {s}_worker;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {s}_worker;
        REVOKE INSERT, UPDATE, DELETE ON {s}.meta FROM {s}_worker;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO {s}_worker;
    END IF;
    -- Reads everything, also messages.
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{s}_reader') THEN
        GRANT USAGE ON SCHEMA {s} TO {s}_reader;
        GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {s}_reader;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO {s}_reader;
        EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || c_calls || ', ' || c_ends || ' FROM {s}_reader';
    END IF;
END $$;
