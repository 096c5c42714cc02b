"""The request mode, PULL or POP, of each group for each topic, and the file ``messageRequestMode.json``.

The rules are Java's (MessageRequestModeManager, QueryAssignmentProcessor).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.entry_writer import EntryWriter
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.pop import POP, PULL, MessageRequestMode, MessageRequestModes
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile, grouped
from rocketmq_py.wire.fastjson import pretty, pretty_object

ModeKey = tuple[str, str]
"""Topic and group of a mode."""


class RequestModes:
    """Request modes by topic and group.

    :param file: ``messageRequestMode.json``.
    :param thread: an executor with one thread, which writes the file.
    """

    def __init__(
        self, file: ConfigFile, config: BrokerConfig, topics: TopicConfigs, groups: SubscriptionGroups, thread: Executor
    ) -> None:  # fmt: skip
        self._file: EntryWriter[ModeKey, MessageRequestMode] = EntryWriter(EntryFile(file, _text, _content), thread)
        self._has_saved = False
        self.saved = self._file.saved
        """Waits until all changes are on disk; ``OSError`` if the disk is full or fails."""
        self._config = config
        self._topics = topics
        self._groups = groups
        self.modes = MessageRequestModes()

    def load(self) -> None:
        """Load the file."""
        self.modes = self._file.load(MessageRequestModes.convert) or MessageRequestModes()

    def get(self, topic: str, group: str) -> MessageRequestMode:
        """Return a group's mode for a topic; if none was set, PULL for retry topics, else the configured default."""
        found = self.modes.message_request_mode_map.get(topic, {}).get(group)
        if found is not None:
            return found
        mode = PULL if is_retry_topic(topic) else self._config.default_message_request_mode
        share = self._config.default_pop_share_queue_num if mode == POP else 0
        return MessageRequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share)

    def set(self, mode: MessageRequestMode) -> None:
        """Set the mode of a group for a topic; :attr:`saved` waits until the file has it.

        :raises BrokerError: the topic is a retry topic, the mode is unknown, or topic or group do not exist.
        """
        if is_retry_topic(mode.topic):
            raise BrokerError.of(Code.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.get(mode.topic) is None:
            raise BrokerError.of(Code.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._groups.find(mode.consumer_group) is None:
            raise BrokerError.of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        if mode.mode not in (PULL, POP):
            raise BrokerError.of(Code.INVALID_PARAMETER, f"mode {mode.mode!r} is unknown; use PULL or POP")
        self.modes.message_request_mode_map.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._save({(mode.topic, mode.consumer_group): mode})

    def take_over(self, modes: MessageRequestModes) -> None:
        """Replace all modes with the master's, and let the file be written."""
        if modes != self.modes:
            before, self.modes = self._entries(), modes
            self._save({**dict.fromkeys(before), **self._entries()})

    def _entries(self) -> dict[ModeKey, MessageRequestMode]:
        modes = self.modes.message_request_mode_map
        return {(topic, group): mode for topic, groups in modes.items() for group, mode in groups.items()}

    def _save(self, changes: Mapping[ModeKey, MessageRequestMode | None]) -> None:
        """Save entries, and the first time all others with them."""
        self._file.save(changes if self._has_saved else {**self._entries(), **changes})
        self._has_saved = True


def _text(mode: MessageRequestMode) -> str:
    return pretty(bean(mode), 3)


def _content(texts: Mapping[ModeKey, str]) -> str:
    """Return the content of the file."""
    topics = {topic: pretty_object(groups, 2) for topic, groups in grouped(texts).items()}
    return pretty_object({"messageRequestModeMap": pretty_object(topics, 1)}, 0)
