-- Reads the calls of applications. Only a call that is not well formed is an error: of the class
-- DQ, with a hint. DQ001: an unknown option. DQ002: the value of an option. DQ003: a name.
-- DQ004: too large. DQ005: not for a namespace that is relayed. The functions that call these have
-- the settings.

-- The options of a call: a JSON object with known keys.
CREATE FUNCTION options_v1(p_call text, p_options jsonb, p_known text[]) RETURNS jsonb
IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    v_key text;
BEGIN
    IF jsonb_typeof(coalesce(p_options, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'delayq.%: the options are no JSON object', p_call
            USING ERRCODE = 'DQ001', HINT = 'write them as ''{"delay": "30 minutes"}''';
    END IF;
    FOR v_key IN SELECT k FROM jsonb_object_keys(p_options) k WHERE k <> ALL (p_known) LOOP
        RAISE EXCEPTION 'delayq.%: unknown option "%"', p_call, v_key
            USING ERRCODE = 'DQ001', HINT = 'this version knows: ' || array_to_string(p_known, ', ');
    END LOOP;
    -- A null is an option that is not given.
    RETURN jsonb_strip_nulls(coalesce(p_options, '{}'));
END $$;

-- Refuses the value of an option.
CREATE FUNCTION refuse_v1(p_call text, p_name text, p_value jsonb, p_hint text) RETURNS void
IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'delayq.%: the option "%" is not valid: %', p_call, p_name, left(p_value::text, 100)
        USING ERRCODE = 'DQ002', HINT = p_hint;
END $$;

-- A number of ms in an option. Fractions of them count as the next one.
CREATE FUNCTION ms_v1(p_call text, p_name text, p_value jsonb) RETURNS bigint
IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    v_ms numeric;
BEGIN
    IF jsonb_typeof(p_value) <> 'number' THEN
        PERFORM refuse_v1(p_call, p_name, p_value, 'give a number of milliseconds');
    END IF;
    v_ms := ceil((p_value #>> '{}')::numeric);
    IF v_ms NOT BETWEEN 0 AND 253402207199999 THEN
        PERFORM refuse_v1(p_call, p_name, p_value, 'give 0 to 253402207199999 (the year 9999)');
    END IF;
    RETURN v_ms;
END $$;

-- A span in ms of up to 10 years: "30 minutes", or a number of ms in the option p_name || '_ms'.
CREATE FUNCTION span_v1(p_call text, p_options jsonb, p_name text) RETURNS bigint
STABLE LANGUAGE plpgsql AS $$
DECLARE
    v_value jsonb := p_options -> p_name;
    v_text text := v_value #>> '{}';
    v_interval interval;
    v_span numeric;
BEGIN
    IF p_options ? (p_name || '_ms') THEN
        IF v_value IS NOT NULL THEN
            PERFORM refuse_v1(p_call, p_name, v_value, format('give it or %s_ms', p_name));
        END IF;
        v_value := p_options -> (p_name || '_ms');
        v_span := ms_v1(p_call, p_name || '_ms', v_value);
    ELSIF v_value IS NOT NULL THEN
        IF jsonb_typeof(v_value) <> 'string' OR v_text ~ '^[-+0-9.eE\s]*$' THEN
            PERFORM refuse_v1(p_call, p_name, v_value,
                format('give it a unit: "30 minutes", or write "%s_ms": 1800000', p_name));
        END IF;
        BEGIN
            v_interval := v_text::interval;
        EXCEPTION WHEN data_exception THEN
            PERFORM refuse_v1(p_call, p_name, v_value, 'write an interval: "30 minutes"');
        END;
        IF extract(year FROM v_interval) <> 0 OR extract(month FROM v_interval) <> 0 THEN
            PERFORM refuse_v1(p_call, p_name, v_value, 'give days: the length of a month varies');
        END IF;
        v_span := ceil(extract(epoch FROM v_interval) * 1000);
    END IF;
    IF v_span NOT BETWEEN 0 AND 315360000000 THEN
        PERFORM refuse_v1(p_call, p_name, v_value, 'give 0 to 10 years of 365 days');
    END IF;
    RETURN v_span;
END $$;

-- A time in ms since the epoch: text with a time zone, or a number of ms in the option
-- p_name || '_ms'.
CREATE FUNCTION time_v1(p_call text, p_options jsonb, p_name text) RETURNS bigint
STABLE LANGUAGE plpgsql AS $$
DECLARE
    c_2001 CONSTANT bigint := 978307200000;
    v_value jsonb := p_options -> p_name;
    v_text text := v_value #>> '{}';
    v_ms bigint;
    v_time timestamptz;
BEGIN
    IF p_options ? (p_name || '_ms') THEN
        IF v_value IS NOT NULL THEN
            PERFORM refuse_v1(p_call, p_name, v_value, format('give it or %s_ms', p_name));
        END IF;
        v_value := p_options -> (p_name || '_ms');
        v_ms := ms_v1(p_call, p_name || '_ms', v_value);
        IF v_ms < c_2001 THEN
            PERFORM refuse_v1(p_call, p_name || '_ms', v_value,
                'it is before 2001: times are milliseconds, were seconds given?');
        END IF;
        RETURN v_ms;
    END IF;
    IF v_value IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(v_value) <> 'string' OR v_text !~ '^\d{4}-\d\d-\d\d[T ].*(Z|[-+]\d\d(:?\d\d)?)$' THEN
        PERFORM refuse_v1(p_call, p_name, v_value, 'give a time with its zone: "2026-12-24T18:00:00Z"');
    END IF;
    BEGIN
        v_time := v_text::timestamptz;
    EXCEPTION WHEN data_exception THEN
        PERFORM refuse_v1(p_call, p_name, v_value, 'write it as "2026-12-24T18:00:00Z"');
    END;
    RETURN least(greatest(ceil(extract(epoch FROM v_time) * 1000), 0), 253402207199999);
END $$;

CREATE FUNCTION flag_v1(p_call text, p_options jsonb, p_name text) RETURNS boolean
IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(p_options -> p_name) <> 'boolean' THEN
        PERFORM refuse_v1(p_call, p_name, p_options -> p_name, 'give true or false');
    END IF;
    RETURN coalesce((p_options -> p_name)::boolean, false);
END $$;

-- The namespace of a call, after a check of all names. An id that is left out is not checked.
CREATE FUNCTION namespace_v1(p_call text, p_type text, p_ids text[], p_options jsonb) RETURNS text
IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    v_namespace text := coalesce(p_options ->> 'namespace', 'default');
    v_id text;
BEGIN
    IF p_type IS NULL OR p_type !~ '^[A-Za-z0-9._:-]{1,100}$' THEN
        RAISE EXCEPTION 'delayq.%: % is no task type', p_call, coalesce(quote_literal(left(p_type, 100)), 'NULL')
            USING ERRCODE = 'DQ003', HINT = 'use 1 to 100 of A-Z a-z 0-9 . _ - :';
    END IF;
    FOREACH v_id IN ARRAY p_ids LOOP
        IF v_id IS NULL OR v_id !~ '^[!-~]{1,128}$' THEN
            RAISE EXCEPTION 'delayq.%: % is no task id', p_call, coalesce(quote_literal(left(v_id, 100)), 'NULL')
                USING ERRCODE = 'DQ003', HINT = 'use 1 to 128 visible ASCII characters, without blanks';
        END IF;
    END LOOP;
    IF v_namespace !~ '^[A-Za-z0-9._:-]{1,64}$' THEN
        RAISE EXCEPTION 'delayq.%: % is no namespace', p_call, quote_literal(left(v_namespace, 100))
            USING ERRCODE = 'DQ003', HINT = 'use 1 to 64 of A-Z a-z 0-9 . _ - :';
    END IF;
    RETURN v_namespace;
END $$;

CREATE FUNCTION check_message_v1(p_call text, p_message bytea) RETURNS void
IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF p_message IS NULL THEN
        RAISE EXCEPTION 'delayq.%: the message is NULL', p_call
            USING ERRCODE = 'DQ002', HINT = 'an empty message is ''''';
    END IF;
    IF octet_length(p_message) > 1048576 THEN
        RAISE EXCEPTION 'delayq.%: the message has % bytes', p_call, octet_length(p_message)
            USING ERRCODE = 'DQ004', HINT = 'the limit is 1048576: send a reference to a row instead';
    END IF;
END $$;

-- Headers as they are stored: names in the order of their bytes. NULL if there are none.
CREATE FUNCTION headers_v1(p_call text, p_options jsonb) RETURNS text
IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    v_headers jsonb := coalesce(p_options -> 'headers', '{}');
    v_count int;
    v_bytes bigint;
    v_text text;
BEGIN
    IF jsonb_typeof(v_headers) <> 'object' OR EXISTS (SELECT 1 FROM jsonb_each(v_headers) h
            WHERE jsonb_typeof(h.value) <> 'string' OR h.key !~ '^[!-~]+$') THEN
        PERFORM refuse_v1(p_call, 'headers', v_headers,
            'give an object of texts, whose names are visible ASCII characters');
    END IF;
    IF v_headers ->> 'delayq-version' !~ '^0*[1-9][0-9]{0,8}$' THEN
        PERFORM refuse_v1(p_call, 'headers', v_headers, 'delayq-version is a number of 1 or more');
    END IF;
    IF p_options ? 'group' THEN
        IF jsonb_typeof(p_options -> 'group') <> 'string' OR p_options ->> 'group' ~ '^\s*$' THEN
            PERFORM refuse_v1(p_call, 'group', p_options -> 'group', 'give a text that is not blank');
        END IF;
        v_headers := v_headers || jsonb_build_object('group', p_options -> 'group');
    END IF;
    SELECT count(*), sum(octet_length(h.key) + octet_length(h.value)), '{' || string_agg(
            to_json(h.key)::text || ':' || to_json(h.value)::text, ',' ORDER BY h.key COLLATE "C") || '}'
        INTO v_count, v_bytes, v_text FROM jsonb_each_text(v_headers) h;
    IF v_count > 64 OR v_bytes > 8192 THEN
        RAISE EXCEPTION 'delayq.%: % headers with % bytes', p_call, v_count, v_bytes
            USING ERRCODE = 'DQ004', HINT = 'the limits are 64 headers and 8192 bytes';
    END IF;
    RETURN v_text;
END $$;

-- Reads the options of a task to send.
CREATE FUNCTION request_v1(p_call text, p_type text, p_id text, p_message bytea, p_options jsonb)
RETURNS request_v1 STABLE LANGUAGE plpgsql AS $$
DECLARE
    c_known CONSTANT text[] := ARRAY['delay', 'delay_ms', 'at', 'at_ms', 'expires_after',
        'expires_after_ms', 'expires_at', 'expires_at_ms', 'on_conflict', 'debounce_max_wait',
        'debounce_max_wait_ms', 'again_if_running', 'headers', 'group', 'namespace', 'notify'];
    v_options jsonb := options_v1(p_call, p_options, c_known);
    v_request request_v1;
BEGIN
    v_request.namespace := namespace_v1(p_call, p_type, ARRAY[p_id], v_options);
    v_request.type := p_type;
    v_request.id := p_id;
    PERFORM check_message_v1(p_call, p_message);
    v_request.message := p_message;
    v_request.headers := headers_v1(p_call, v_options);
    v_request.delay := span_v1(p_call, v_options, 'delay');
    v_request.due := time_v1(p_call, v_options, 'at');
    v_request.expires_at := time_v1(p_call, v_options, 'expires_at');
    v_request.expires_after := span_v1(p_call, v_options, 'expires_after');
    v_request.max_wait := span_v1(p_call, v_options, 'debounce_max_wait');
    v_request.again := flag_v1(p_call, v_options, 'again_if_running');
    v_request.notify := flag_v1(p_call, v_options, 'notify');
    IF v_request.delay IS NOT NULL AND v_request.due IS NOT NULL THEN
        PERFORM refuse_v1(p_call, 'at', v_options -> 'at', 'give a delay or a time');
    END IF;
    IF v_request.expires_at IS NOT NULL AND v_request.expires_after IS NOT NULL THEN
        PERFORM refuse_v1(p_call, 'expires_at', v_options -> 'expires_at', 'give one expiry');
    END IF;
    IF v_request.due > clock_us() / 1000 + 315360000000 THEN
        PERFORM refuse_v1(p_call, 'at', to_jsonb(v_request.due), 'give a time within 10 years');
    END IF;
    IF v_request.due IS NULL THEN
        v_request.delay := coalesce(v_request.delay, 0);
    END IF;
    v_request.conflict := CASE coalesce(v_options ->> 'on_conflict', 'reject')
        WHEN 'reject' THEN 0 WHEN 'keep' THEN 1 WHEN 'replace' THEN 2 END;
    IF v_request.conflict IS NULL THEN
        PERFORM refuse_v1(p_call, 'on_conflict', v_options -> 'on_conflict', 'give reject, keep or replace');
    END IF;
    IF v_request.max_wait IS NOT NULL THEN
        IF v_options ? 'on_conflict' OR v_request.delay IS NULL OR v_request.delay > v_request.max_wait THEN
            PERFORM refuse_v1(p_call, 'debounce_max_wait', to_jsonb(v_request.max_wait || ' ms'),
                'it goes with a delay that is not longer, and without on_conflict');
        END IF;
        v_request.conflict := 3;
    END IF;
    RETURN v_request;
END $$;
