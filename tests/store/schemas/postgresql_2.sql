SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE DOMAIN public.lading_json AS text COLLATE pg_catalog."C"
	CONSTRAINT lading_json_check CHECK (((VALUE IS NULL) OR ((VALUE)::jsonb IS NOT NULL)));
CREATE FUNCTION public.lading_each(document text) RETURNS TABLE(key text, fullkey text, type text, value text, number numeric)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT one.key, one.fullkey,
        CASE json_typeof(one.item)
            WHEN 'string' THEN 'text'
            WHEN 'number' THEN 'real'
            WHEN 'boolean' THEN one.item::text
            ELSE json_typeof(one.item)
        END,
        one.item #>> '{}',
        CASE json_typeof(one.item) WHEN 'number' THEN (one.item #>> '{}')::numeric END
    FROM (
        SELECT o.key, '$.' || o.key AS fullkey, o.value AS item
        FROM json_each(CASE json_typeof(document::json) WHEN 'object' THEN document::json END) o
        UNION ALL
        SELECT NULL, '$[' || (a.position - 1) || ']', a.value
        FROM json_array_elements(CASE json_typeof(document::json) WHEN 'array' THEN document::json END)
            WITH ORDINALITY AS a(value, position)
    ) one
$_$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.api_client_authorizations (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    created_by_ip_address text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C",
    last_used_at text COLLATE pg_catalog."C",
    last_used_by_ip_address text COLLATE pg_catalog."C",
    scopes public.lading_json DEFAULT '["all"]'::text,
    secret_hash text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.collections (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    portable_data_hash text COLLATE pg_catalog."C",
    manifest_text text DEFAULT ''::text COLLATE pg_catalog."C",
    replication_desired bigint,
    replication_confirmed bigint,
    replication_confirmed_at text COLLATE pg_catalog."C",
    storage_classes_desired public.lading_json DEFAULT '["default"]'::text,
    storage_classes_confirmed public.lading_json DEFAULT '[]'::text,
    storage_classes_confirmed_at text COLLATE pg_catalog."C",
    trash_at text COLLATE pg_catalog."C",
    delete_at text COLLATE pg_catalog."C",
    is_trashed smallint DEFAULT 0,
    version bigint DEFAULT 1,
    current_version_uuid text COLLATE pg_catalog."C",
    preserve_version smallint DEFAULT 0,
    file_count bigint DEFAULT 0,
    file_size_total bigint DEFAULT 0
);
CREATE TABLE public.container_requests (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    state text DEFAULT 'Uncommitted'::text COLLATE pg_catalog."C",
    requesting_container_uuid text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C",
    container_count_max bigint,
    container_count bigint DEFAULT 0,
    attempted_container_uuids public.lading_json DEFAULT '[]'::text,
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts public.lading_json DEFAULT '{}'::text,
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    output_name text COLLATE pg_catalog."C",
    output_ttl bigint DEFAULT 0,
    priority bigint,
    use_existing smallint DEFAULT 1,
    expires_at text COLLATE pg_catalog."C",
    filters public.lading_json,
    log_uuid text COLLATE pg_catalog."C",
    output_uuid text COLLATE pg_catalog."C",
    cumulative_cost double precision DEFAULT 0.0
);
CREATE TABLE public.containers (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    state text DEFAULT 'Queued'::text COLLATE pg_catalog."C",
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts public.lading_json DEFAULT '{}'::text,
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    priority bigint DEFAULT 0,
    runtime_user_uuid text COLLATE pg_catalog."C",
    runtime_auth_scopes public.lading_json,
    locked_by_uuid text COLLATE pg_catalog."C",
    auth_uuid text COLLATE pg_catalog."C",
    lock_count bigint DEFAULT 0,
    runtime_status public.lading_json DEFAULT '{}'::text,
    progress double precision,
    log text COLLATE pg_catalog."C",
    output text COLLATE pg_catalog."C",
    exit_code bigint,
    cost double precision DEFAULT 0.0,
    subrequests_cost double precision DEFAULT 0.0,
    started_at text COLLATE pg_catalog."C",
    finished_at text COLLATE pg_catalog."C",
    gateway_address text DEFAULT ''::text COLLATE pg_catalog."C",
    interactive_session_started smallint DEFAULT 0,
    supervisor_auth_uuid text COLLATE pg_catalog."C",
    secret_mounts_md5 text COLLATE pg_catalog."C",
    reuse_key text COLLATE pg_catalog."C"
);
CREATE TABLE public.links (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    link_class text DEFAULT ''::text COLLATE pg_catalog."C",
    name text DEFAULT ''::text COLLATE pg_catalog."C",
    tail_uuid text COLLATE pg_catalog."C",
    head_uuid text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text
);
CREATE TABLE public.logs (
    id bigint NOT NULL,
    uuid text COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    object_uuid text COLLATE pg_catalog."C",
    object_owner_uuid text COLLATE pg_catalog."C",
    event_at text COLLATE pg_catalog."C",
    event_type text COLLATE pg_catalog."C",
    summary text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text
);
ALTER TABLE public.logs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.schema_versions (
    version integer NOT NULL,
    applied_at text NOT NULL
);
CREATE TABLE public.users (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    email text COLLATE pg_catalog."C",
    username text COLLATE pg_catalog."C",
    first_name text DEFAULT ''::text COLLATE pg_catalog."C",
    last_name text DEFAULT ''::text COLLATE pg_catalog."C",
    identity_url text COLLATE pg_catalog."C",
    is_active smallint DEFAULT 1,
    is_admin smallint DEFAULT 0,
    prefs public.lading_json DEFAULT '{}'::text
);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.005000000Z', '2026-01-02T03:04:05.005000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["all"]', '160b4e433e384e05e537dc59b467f7cb2403f0214db15c5db58862a3f1156d2e', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', '2026-01-02T03:04:05.007000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]', 'd7bea1c4096828f2a20e45524019f6987f3ec62807064bd240d23ec3a1be3990', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-7u9l187q3xk7tqv', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.011000000Z', '2026-01-02T03:04:05.011000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '127.0.0.1', NULL, NULL, NULL, '["all"]', '6a566ef11e1f95fb7bbd3879aebf92cad157dae10dbc280a57af0b68a5827c3a', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-qd2yapdij1xqknp', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.043000000Z', NULL, NULL, '["all"]', '4969c495ef91cb0ca0a401ee8cfc960fdbf87a47c608c005e2b253b7433ba9f9', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-hslaz4uqd18vca3', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.043000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-yo3rvvsuglvcp3k","PUT /arvados/v1/containers/zzzzz-dz642-yo3rvvsuglvcp3k","GET /arvados/v1/containers/zzzzz-dz642-yo3rvvsuglvcp3k/auth","POST /arvados/v1/containers/zzzzz-dz642-yo3rvvsuglvcp3k/unlock","POST /arvados/v1/containers/zzzzz-dz642-yo3rvvsuglvcp3k/live/","GET /arvados/v1/users/current"]', '830b7e79e10e3ae8ae0303a2e39ffc662ef04e9c633b60b6944f49da3b16ffe0', 'zzzzz-dz642-yo3rvvsuglvcp3k');
INSERT INTO public.collections VALUES ('zzzzz-4zz18-ag99lx7cfylpx9h', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.013000000Z', '2026-01-02T03:04:05.013000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'O''Neill', NULL, '{"k":"v","n":5,"list":["a",1]}', '9b62036e943d5d791a5434d252042e34+47', '. 2c1743a391305fbf367df8e4f069f9f9+5 0:5:a.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-ag99lx7cfylpx9h', 0, 1, 5);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-0b1vcnfd8ybi4yi', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.019000000Z', '2026-01-02T03:04:05.019000000Z', 'zzzzz-tpzed-17djwub9f62h2ve', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-0b1vcnfd8ybi4yi', 0, 1, 8);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-jawhg8k0dnp77lp', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.033000000Z', '2026-01-02T03:04:05.033000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'f46470093640d032683e737e627413a5+58', '. 5e08469004a5b6ab41cf9b60bf5e853f+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.034000000Z', '2026-01-16T03:04:05.034000000Z', 1, 1, 'zzzzz-4zz18-jawhg8k0dnp77lp', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-vt3urjosy5cua13', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.037000000Z', '2026-01-02T03:04:05.037000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.038000000Z', '2026-01-16T03:04:05.038000000Z', 1, 1, 'zzzzz-4zz18-vt3urjosy5cua13', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-mlirma2n04qmdv1', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.045000000Z', '2026-01-02T03:04:05.045000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for request zzzzz-xvhdp-ma4nm9b4ctjlyy4', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4"}', 'ebf6b40f0c9f264b5c68d06209776170+171', '. 5e08469004a5b6ab41cf9b60bf5e853f+27 0:27:crunch-run.txt
./log\040for\040container\040zzzzz-dz642-yo3rvvsuglvcp3k 5e08469004a5b6ab41cf9b60bf5e853f+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-mlirma2n04qmdv1', 0, 2, 54);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-rbqg7s2358p37s6', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.047000000Z', '2026-01-02T03:04:05.047000000Z', 'zzzzz-tpzed-000000000000000', 'Container output for request zzzzz-xvhdp-ma4nm9b4ctjlyy4', NULL, '{"type":"output","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4"}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-rbqg7s2358p37s6', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-8b6fxmjgafpyc0n', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.049000000Z', '2026-01-02T03:04:05.049000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for container zzzzz-dz642-yo3rvvsuglvcp3k', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4","container_uuid":"zzzzz-dz642-yo3rvvsuglvcp3k"}', 'f46470093640d032683e737e627413a5+58', '. 5e08469004a5b6ab41cf9b60bf5e853f+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-8b6fxmjgafpyc0n', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-jkio2cb80p6wejl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.052000000Z', '2026-01-02T03:04:05.052000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-jkio2cb80p6wejl', 0, 1, 8);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-ma4nm9b4ctjlyy4', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, '{}', 'Final', NULL, 'zzzzz-dz642-yo3rvvsuglvcp3k', 3, 1, '[]', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, 'zzzzz-4zz18-mlirma2n04qmdv1', 'zzzzz-4zz18-rbqg7s2358p37s6', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-gz2anqly08lcfyk', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.055000000Z', '2026-01-02T03:04:05.055000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-oicrkt801xw30es', 3, 1, '[]', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, NULL, NULL, 0);
INSERT INTO public.containers VALUES ('zzzzz-dz642-yo3rvvsuglvcp3k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-000000000000000', 'Complete', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', 1124132583797602, 'zzzzz-tpzed-17djwub9f62h2ve', '["all"]', NULL, NULL, 1, '{}', NULL, 'f46470093640d032683e737e627413a5+58', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', 0, 0, 0, '2026-01-02T03:04:05.030000000Z', '2026-01-02T03:04:05.041000000Z', '', 0, NULL, '99914b932bd37a50b983c5e7c90ae93b', '7ddc1492655671ada59a3e0e4a39a8553452bba82759e7d23989fc6dfd9f0df0');
INSERT INTO public.containers VALUES ('zzzzz-dz642-oicrkt801xw30es', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.055000000Z', '2026-01-02T03:04:05.055000000Z', 'zzzzz-tpzed-000000000000000', 'Queued', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', 1124132583797569, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '["all"]', NULL, NULL, 0, '{}', NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, '', 0, NULL, '99914b932bd37a50b983c5e7c90ae93b', '668e51a6b7747b140607d9d66010e4aa3d20676ff7faa18d0b367d6e3cad22bd');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-q1217or9nm5kbej', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.016000000Z', '2026-01-02T03:04:05.016000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'tag', 't', NULL, 'zzzzz-4zz18-ag99lx7cfylpx9h', '{}');
INSERT INTO public.logs VALUES (1, 'zzzzz-57u5n-1p66km86er9fqfh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.002000000Z', '2026-01-02T03:04:05.002000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.002000000Z', 'create', 'create of zzzzz-tpzed-000000000000000', '{"new_etag":"aebc0c0fdc50ba7fd5a32bc9f","new_attributes":{"uuid":"zzzzz-tpzed-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.001000000Z","modified_at":"2026-01-02T03:04:05.001000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"root","first_name":"root","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (2, 'zzzzz-57u5n-6jqm4zudg0b0gi8', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.004000000Z', '2026-01-02T03:04:05.004000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.004000000Z', 'create', 'create of zzzzz-tpzed-aaaaaaaaaaaaaaa', '{"new_etag":"f0a38221ad1968ce5c624489d","new_attributes":{"uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.003000000Z","modified_at":"2026-01-02T03:04:05.003000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"admin","first_name":"admin","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (3, 'zzzzz-57u5n-da2cb4yg3hefvbs', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.006000000Z', '2026-01-02T03:04:05.006000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.006000000Z', 'create', 'create of zzzzz-gj3su-aaaaaaaaaaaaaaa', '{"new_etag":"5cf03278533af6b9336c90f10","new_attributes":{"uuid":"zzzzz-gj3su-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.005000000Z","modified_at":"2026-01-02T03:04:05.005000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (4, 'zzzzz-57u5n-64unqttxrszsoz1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.008000000Z', '2026-01-02T03:04:05.008000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.008000000Z', 'create', 'create of zzzzz-gj3su-ddddddddddddddd', '{"new_etag":"abd193ebccc64b6dc41cbc72b","new_attributes":{"uuid":"zzzzz-gj3su-ddddddddddddddd","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.007000000Z","modified_at":"2026-01-02T03:04:05.007000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]}}');
INSERT INTO public.logs VALUES (5, 'zzzzz-57u5n-82oztsv13h4pdac', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.010000000Z', '2026-01-02T03:04:05.010000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-17djwub9f62h2ve', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.010000000Z', 'create', 'create of zzzzz-tpzed-17djwub9f62h2ve', '{"new_etag":"97e873001d8bfb13fe8aa555b","new_attributes":{"uuid":"zzzzz-tpzed-17djwub9f62h2ve","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.009000000Z","modified_at":"2026-01-02T03:04:05.009000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","email":"ada@example.org","username":"ada","first_name":"","last_name":"","identity_url":null,"is_active":true,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (6, 'zzzzz-57u5n-61y57ygwpsmvvr7', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.012000000Z', '2026-01-02T03:04:05.012000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-gj3su-7u9l187q3xk7tqv', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.012000000Z', 'create', 'create of zzzzz-gj3su-7u9l187q3xk7tqv', '{"new_etag":"ed4913192896c200e31bc3ffe","new_attributes":{"uuid":"zzzzz-gj3su-7u9l187q3xk7tqv","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.011000000Z","modified_at":"2026-01-02T03:04:05.011000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_by_ip_address":"127.0.0.1","expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (7, 'zzzzz-57u5n-gsjs1d1vfsuwv9h', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.014000000Z', '2026-01-02T03:04:05.014000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-ag99lx7cfylpx9h', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.014000000Z', 'create', 'create of zzzzz-4zz18-ag99lx7cfylpx9h', '{"new_etag":"554b9cad548a86a35364393cd","new_attributes":{"uuid":"zzzzz-4zz18-ag99lx7cfylpx9h","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.013000000Z","modified_at":"2026-01-02T03:04:05.013000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":"O''Neill","description":null,"properties":{"k":"v","n":5,"list":["a",1]},"portable_data_hash":"9b62036e943d5d791a5434d252042e34+47","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-ag99lx7cfylpx9h","preserve_version":false,"file_count":1,"file_size_total":5}}');
INSERT INTO public.logs VALUES (8, 'zzzzz-57u5n-8c5irmi8t6fppj6', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.017000000Z', '2026-01-02T03:04:05.017000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-q1217or9nm5kbej', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.017000000Z', 'create', 'create of zzzzz-o0j2j-q1217or9nm5kbej', '{"new_etag":"3cc77bcebad9f617a9b1189aa","new_attributes":{"uuid":"zzzzz-o0j2j-q1217or9nm5kbej","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.016000000Z","modified_at":"2026-01-02T03:04:05.016000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"tag","name":"t","tail_uuid":null,"head_uuid":"zzzzz-4zz18-ag99lx7cfylpx9h","properties":{}}}');
INSERT INTO public.logs VALUES (9, 'zzzzz-57u5n-a14rcj43p4339oj', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.020000000Z', '2026-01-02T03:04:05.020000000Z', 'zzzzz-tpzed-17djwub9f62h2ve', 'zzzzz-4zz18-0b1vcnfd8ybi4yi', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.020000000Z', 'create', 'create of zzzzz-4zz18-0b1vcnfd8ybi4yi', '{"new_etag":"3d6f972df091eddbe768809af","new_attributes":{"uuid":"zzzzz-4zz18-0b1vcnfd8ybi4yi","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.019000000Z","modified_at":"2026-01-02T03:04:05.019000000Z","modified_by_user_uuid":"zzzzz-tpzed-17djwub9f62h2ve","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-0b1vcnfd8ybi4yi","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (10, 'zzzzz-57u5n-qq1tzji7klv3eq8', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.025000000Z', '2026-01-02T03:04:05.025000000Z', 'zzzzz-tpzed-17djwub9f62h2ve', 'zzzzz-dz642-yo3rvvsuglvcp3k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', 'create', 'create of zzzzz-dz642-yo3rvvsuglvcp3k', '{"new_etag":"790e8c657bbd8baec20ded5f1","new_attributes":{"uuid":"zzzzz-dz642-yo3rvvsuglvcp3k","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.022000000Z","modified_at":"2026-01-02T03:04:05.022000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"priority":1124132583797602,"runtime_user_uuid":"zzzzz-tpzed-17djwub9f62h2ve","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (11, 'zzzzz-57u5n-ur8blpwokr6fote', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.026000000Z', '2026-01-02T03:04:05.026000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-ma4nm9b4ctjlyy4', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.026000000Z', 'resolve', 'new zzzzz-dz642-yo3rvvsuglvcp3k: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-yo3rvvsuglvcp3k","candidates":[],"nearest":null}');
INSERT INTO public.logs VALUES (12, 'zzzzz-57u5n-yvv6whc1nt940mj', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.027000000Z', '2026-01-02T03:04:05.027000000Z', 'zzzzz-tpzed-17djwub9f62h2ve', 'zzzzz-xvhdp-ma4nm9b4ctjlyy4', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.027000000Z', 'create', 'create of zzzzz-xvhdp-ma4nm9b4ctjlyy4', '{"new_etag":"fb831491e65893f260a7cb5a3","new_attributes":{"uuid":"zzzzz-xvhdp-ma4nm9b4ctjlyy4","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.022000000Z","modified_at":"2026-01-02T03:04:05.022000000Z","modified_by_user_uuid":"zzzzz-tpzed-17djwub9f62h2ve","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-yo3rvvsuglvcp3k","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (13, 'zzzzz-57u5n-1ean9ef6vidlu0g', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.029000000Z', '2026-01-02T03:04:05.029000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-yo3rvvsuglvcp3k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.029000000Z', 'update', 'update of zzzzz-dz642-yo3rvvsuglvcp3k', '{"old_etag":"790e8c657bbd8baec20ded5f1","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.022000000Z","state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0},"new_etag":"6859e846ca9d383c0853b2a2e","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.028000000Z","state":"Locked","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-qd2yapdij1xqknp","lock_count":1}}');
INSERT INTO public.logs VALUES (14, 'zzzzz-57u5n-b361wc5wxsye61o', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.032000000Z', '2026-01-02T03:04:05.032000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-yo3rvvsuglvcp3k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.032000000Z', 'update', 'update of zzzzz-dz642-yo3rvvsuglvcp3k', '{"old_etag":"6859e846ca9d383c0853b2a2e","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.028000000Z","state":"Locked","started_at":null},"new_etag":"440370e70e7d00e7bea47e435","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.031000000Z","state":"Running","started_at":"2026-01-02T03:04:05.030000000Z"}}');
INSERT INTO public.logs VALUES (15, 'zzzzz-57u5n-bmbz7yiuo0az3p1', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.035000000Z', '2026-01-02T03:04:05.035000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-jawhg8k0dnp77lp', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.035000000Z', 'create', 'create of zzzzz-4zz18-jawhg8k0dnp77lp', '{"new_etag":"30ccbe0f7e10af05d7888e4ed","new_attributes":{"uuid":"zzzzz-4zz18-jawhg8k0dnp77lp","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.033000000Z","modified_at":"2026-01-02T03:04:05.033000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"f46470093640d032683e737e627413a5+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.034000000Z","delete_at":"2026-01-16T03:04:05.034000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-jawhg8k0dnp77lp","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (16, 'zzzzz-57u5n-sx7b201mdm62e31', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.039000000Z', '2026-01-02T03:04:05.039000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-vt3urjosy5cua13', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.039000000Z', 'create', 'create of zzzzz-4zz18-vt3urjosy5cua13', '{"new_etag":"1e360cb12d1592e4cd3c37577","new_attributes":{"uuid":"zzzzz-4zz18-vt3urjosy5cua13","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.037000000Z","modified_at":"2026-01-02T03:04:05.037000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.038000000Z","delete_at":"2026-01-16T03:04:05.038000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-vt3urjosy5cua13","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (17, 'zzzzz-57u5n-v2lqv0bjd2w43x0', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.044000000Z', '2026-01-02T03:04:05.044000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-yo3rvvsuglvcp3k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.044000000Z', 'update', 'update of zzzzz-dz642-yo3rvvsuglvcp3k', '{"old_etag":"440370e70e7d00e7bea47e435","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.031000000Z","state":"Running","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-qd2yapdij1xqknp","log":null,"output":null,"exit_code":null,"finished_at":null},"new_etag":"686aff3e82dd206fe3c1bed57","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.043000000Z","state":"Complete","locked_by_uuid":null,"auth_uuid":null,"log":"f46470093640d032683e737e627413a5+58","output":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","exit_code":0,"finished_at":"2026-01-02T03:04:05.041000000Z"}}');
INSERT INTO public.logs VALUES (18, 'zzzzz-57u5n-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.046000000Z', '2026-01-02T03:04:05.046000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-mlirma2n04qmdv1', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.046000000Z', 'create', 'create of zzzzz-4zz18-mlirma2n04qmdv1', '{"new_etag":"3e9ef782f57a2e508abfa15e4","new_attributes":{"uuid":"zzzzz-4zz18-mlirma2n04qmdv1","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.045000000Z","modified_at":"2026-01-02T03:04:05.045000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for request zzzzz-xvhdp-ma4nm9b4ctjlyy4","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4"},"portable_data_hash":"ebf6b40f0c9f264b5c68d06209776170+171","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-mlirma2n04qmdv1","preserve_version":false,"file_count":2,"file_size_total":54}}');
INSERT INTO public.logs VALUES (19, 'zzzzz-57u5n-y79r3z0eiv1w3jz', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.048000000Z', '2026-01-02T03:04:05.048000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-rbqg7s2358p37s6', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.048000000Z', 'create', 'create of zzzzz-4zz18-rbqg7s2358p37s6', '{"new_etag":"4c4f85130f350b10a6460b0b8","new_attributes":{"uuid":"zzzzz-4zz18-rbqg7s2358p37s6","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.047000000Z","modified_at":"2026-01-02T03:04:05.047000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container output for request zzzzz-xvhdp-ma4nm9b4ctjlyy4","description":null,"properties":{"type":"output","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4"},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-rbqg7s2358p37s6","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (20, 'zzzzz-57u5n-a57y62il3n64mx3', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.050000000Z', '2026-01-02T03:04:05.050000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-8b6fxmjgafpyc0n', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.050000000Z', 'create', 'create of zzzzz-4zz18-8b6fxmjgafpyc0n', '{"new_etag":"fe27bf263dbd96a071d9ebfe8","new_attributes":{"uuid":"zzzzz-4zz18-8b6fxmjgafpyc0n","owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","created_at":"2026-01-02T03:04:05.049000000Z","modified_at":"2026-01-02T03:04:05.049000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for container zzzzz-dz642-yo3rvvsuglvcp3k","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-ma4nm9b4ctjlyy4","container_uuid":"zzzzz-dz642-yo3rvvsuglvcp3k"},"portable_data_hash":"f46470093640d032683e737e627413a5+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-8b6fxmjgafpyc0n","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (21, 'zzzzz-57u5n-bwz2kf07dh718jk', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.051000000Z', '2026-01-02T03:04:05.051000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-ma4nm9b4ctjlyy4', 'zzzzz-tpzed-17djwub9f62h2ve', '2026-01-02T03:04:05.051000000Z', 'update', 'update of zzzzz-xvhdp-ma4nm9b4ctjlyy4', '{"old_etag":"fb831491e65893f260a7cb5a3","old_attributes":{"owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","modified_at":"2026-01-02T03:04:05.022000000Z","modified_by_user_uuid":"zzzzz-tpzed-17djwub9f62h2ve","name":null,"state":"Committed","requesting_container_uuid":null,"log_uuid":null,"output_uuid":null},"new_etag":"fb1f7b207c7b80c5cdf04dd08","new_attributes":{"owner_uuid":"zzzzz-tpzed-17djwub9f62h2ve","modified_at":"2026-01-02T03:04:05.043000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":null,"state":"Final","requesting_container_uuid":null,"log_uuid":"zzzzz-4zz18-mlirma2n04qmdv1","output_uuid":"zzzzz-4zz18-rbqg7s2358p37s6"}}');
INSERT INTO public.logs VALUES (22, 'zzzzz-57u5n-esv1rv80yfqxh0m', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.053000000Z', '2026-01-02T03:04:05.053000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-jkio2cb80p6wejl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.053000000Z', 'create', 'create of zzzzz-4zz18-jkio2cb80p6wejl', '{"new_etag":"7ea1cde65b0ac29f8f2a2806f","new_attributes":{"uuid":"zzzzz-4zz18-jkio2cb80p6wejl","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.052000000Z","modified_at":"2026-01-02T03:04:05.052000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-jkio2cb80p6wejl","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (23, 'zzzzz-57u5n-jcralt56lhxq5zs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.058000000Z', '2026-01-02T03:04:05.058000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-dz642-oicrkt801xw30es', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.058000000Z', 'create', 'create of zzzzz-dz642-oicrkt801xw30es', '{"new_etag":"4bdd025dff69a19eb9d1afe4c","new_attributes":{"uuid":"zzzzz-dz642-oicrkt801xw30es","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.055000000Z","modified_at":"2026-01-02T03:04:05.055000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"priority":1124132583797569,"runtime_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (24, 'zzzzz-57u5n-950s7ze7ab0kw97', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.059000000Z', '2026-01-02T03:04:05.059000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-gz2anqly08lcfyk', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.059000000Z', 'resolve', 'new zzzzz-dz642-oicrkt801xw30es: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-oicrkt801xw30es","candidates":[],"nearest":null}');
INSERT INTO public.logs VALUES (25, 'zzzzz-57u5n-e4kgfsxzejle7m5', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.060000000Z', '2026-01-02T03:04:05.060000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-gz2anqly08lcfyk', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.060000000Z', 'create', 'create of zzzzz-xvhdp-gz2anqly08lcfyk', '{"new_etag":"b4bc763414ad99bcee700ca0f","new_attributes":{"uuid":"zzzzz-xvhdp-gz2anqly08lcfyk","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.055000000Z","modified_at":"2026-01-02T03:04:05.055000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-oicrkt801xw30es","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (26, 'zzzzz-57u5n-lsqf24e09kzqdiq', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.061000000Z', '2026-01-02T03:04:05.061000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-ag99lx7cfylpx9h', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.061000000Z', 'note', NULL, '{"text":"Grüße ✓"}');
INSERT INTO public.schema_versions VALUES (2, '2026-01-02T03:04:05.000000000Z');
INSERT INTO public.users VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', '2026-01-02T03:04:05.001000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'root', 'root', '', NULL, 1, 1, '{}');
INSERT INTO public.users VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', '2026-01-02T03:04:05.003000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'admin', 'admin', '', NULL, 1, 1, '{}');
INSERT INTO public.users VALUES ('zzzzz-tpzed-17djwub9f62h2ve', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', '2026-01-02T03:04:05.009000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'ada@example.org', 'ada', '', '', NULL, 1, 0, '{}');
SELECT pg_catalog.setval('public.logs_id_seq', 26, true);
ALTER TABLE ONLY public.api_client_authorizations
    ADD CONSTRAINT api_client_authorizations_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.container_requests
    ADD CONSTRAINT container_requests_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.containers
    ADD CONSTRAINT containers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_uuid_key UNIQUE (uuid);
ALTER TABLE ONLY public.schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (uuid);
CREATE INDEX api_client_authorizations_container_uuid ON public.api_client_authorizations USING btree (container_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_owner_uuid ON public.api_client_authorizations USING btree (owner_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_secret_hash ON public.api_client_authorizations USING btree (secret_hash NULLS FIRST);
CREATE INDEX collections_delete_at ON public.collections USING btree (delete_at NULLS FIRST);
CREATE INDEX collections_modified_at_uuid ON public.collections USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_portable_data_hash ON public.collections USING btree (portable_data_hash NULLS FIRST);
CREATE INDEX collections_trash_at ON public.collections USING btree (trash_at NULLS FIRST);
CREATE INDEX container_requests_container_uuid_state ON public.container_requests USING btree (container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX container_requests_modified_at_uuid ON public.container_requests USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_modified_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX container_requests_requesting_container_uuid_state ON public.container_requests USING btree (requesting_container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX containers_auth_uuid ON public.containers USING btree (auth_uuid NULLS FIRST);
CREATE INDEX containers_locked_by_uuid ON public.containers USING btree (locked_by_uuid NULLS FIRST);
CREATE INDEX containers_modified_at_uuid ON public.containers USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_reuse_key_state ON public.containers USING btree (reuse_key NULLS FIRST, state NULLS FIRST);
CREATE INDEX containers_state_priority ON public.containers USING btree (state NULLS FIRST, priority NULLS FIRST);
CREATE INDEX links_head_uuid ON public.links USING btree (head_uuid NULLS FIRST);
CREATE INDEX links_link_class_name ON public.links USING btree (link_class NULLS FIRST, name NULLS FIRST);
CREATE INDEX links_owner_uuid ON public.links USING btree (owner_uuid NULLS FIRST);
CREATE INDEX links_tail_uuid ON public.links USING btree (tail_uuid NULLS FIRST);
CREATE INDEX logs_object_uuid ON public.logs USING btree (object_uuid NULLS FIRST);
CREATE UNIQUE INDEX unique_collections_owner_uuid_name ON public.collections USING btree (owner_uuid, name) WHERE ((is_trashed = 0) AND (current_version_uuid = uuid));
CREATE UNIQUE INDEX unique_users_email ON public.users USING btree (email);
CREATE UNIQUE INDEX unique_users_username ON public.users USING btree (username);
