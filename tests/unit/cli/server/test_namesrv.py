"""``rocketmq namesrv``: its configuration, and READY when it accepts connections."""

import asyncio

import pytest

import rocketmq_py.namesrv
from rocketmq_py.cli.server import namesrv
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.server import runner
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.tls import TlsSettings


@pytest.fixture
def configured(run, monkeypatch):
    """Runs the command up to its configuration, TLS and access control."""

    def configure(words):
        seen = []
        monkeypatch.setattr(namesrv, "_serve", lambda *parts: seen.append(parts))
        monkeypatch.setattr(runner, "run", lambda _: None)
        monkeypatch.setattr(namesrv, "log_as", lambda *args: seen.append(args))
        result = run(f"namesrv {words}")
        assert result.exit_code == 0, result.output
        return seen

    return configure


def test_it_listens_on_this_machine_only_unless_told(configured):
    logged, (config, tls, access) = configured("")
    assert logged == (None, "text")
    assert (config.listen_port, config.bind_address) == (9876, "127.0.0.1")
    assert config.kv_config_path.endswith("/namesrv/kvConfig.json")
    assert tls == TlsSettings.of({})
    assert isinstance(access, AuthDispatcher)
    _, (config, _, _) = configured("--host 0.0.0.0 --port 0")
    assert (config.listen_port, config.bind_address) == (0, "0.0.0.0")


def test_set_overrides_the_file_and_options_override_both(configured, tmp_path, caplog):
    file = tmp_path / "conf"
    file.write_text("listenPort=1\norderMessageEnable=true\nscanNotActiveBrokerInterval=7\nnix=1\n")
    logged, (config, tls, _) = configured(
        f"-c {file} --set scanNotActiveBrokerInterval=8 --set listenPort=2 --tls-mode disabled --log-level info"
    )
    assert logged == ("info", "text")
    assert (config.listen_port, config.order_message_enable, config.scan_not_active_broker_interval) == (2, True, 8)
    assert config.config_store_path == str(file)
    assert tls == TlsSettings.of({"tls.server.mode": "disabled"})
    assert "without effect: nix" in caplog.text
    _, (config, _, _) = configured(f"-c {file} --port 3")
    assert config.listen_port == 3


def test_it_is_ready_when_it_has_started(monkeypatch, capsys):
    states = []

    class Server:
        address = "h:7"

        def __init__(self, config, tls, access):
            states.append((config.listen_port, tls, access))

        async def start(self):
            assert capsys.readouterr().out == ""
            states.append("started")

        async def stop(self):
            states.append("stopped")

    monkeypatch.setattr(rocketmq_py.namesrv, "NameServer", Server)

    async def test():
        task = asyncio.ensure_future(namesrv._serve(NamesrvConfig(listen_port=1), "tls", "access"))
        await asyncio.sleep(1)
        assert not task.done()
        assert states == [(1, "tls", "access"), "started"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())
    assert states[-1] == "stopped"
    assert capsys.readouterr().out == "READY namesrv=h:7\n"
