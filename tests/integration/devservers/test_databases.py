import psycopg
import pymysql
import pytest

from devservers.mirror.databases import MariaDB, Postgres


def test_postgresql_keeps_what_was_committed_through_a_kill(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO kept VALUES (1)")
        assert connection.execute("SHOW wal_level").fetchall() == [("logical",)]
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.url)
    postgres.start()
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]


def test_mariadb_keeps_what_was_committed_through_a_kill(mariadb: MariaDB) -> None:
    with pymysql.connect(**mariadb.login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO kept VALUES (1)")
        cursor.execute("SELECT @@log_bin, @@binlog_format, @@binlog_row_image")
        assert cursor.fetchall() == ((1, "ROW", "FULL"),)
    mariadb.kill()
    mariadb.start()
    with pymysql.connect(**mariadb.login) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM kept")
        assert cursor.fetchall() == ((1,),)
