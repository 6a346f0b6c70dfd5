"""Everything Debian's pylxd can do with a server, one JSON line per check: {"name": ..., "error": null or text}.

Arguments: state folder of the server, fingerprint of an image that can start, unified tarball of another image, name
and IPv4 address of a bridge that does not exist yet. The default profile must be complete.
"""

import json
import sys
import tempfile
import threading
import time
import traceback
import warnings

import pylxd
from pylxd import exceptions

warnings.simplefilter("ignore")
STATE, FINGERPRINT, TARBALL, BRIDGE, ADDRESS = sys.argv[1:6]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def until(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def refused(error, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as problem:
        return problem
    raise AssertionError(f"{error.__name__} expected")


def launch(client, name, **more):
    source = {"type": "image", "fingerprint": FINGERPRINT}
    instance = client.containers.create({"name": name, "source": source, **more}, wait=True)
    instance.start(wait=True)
    return instance


@check
def connect(client):
    assert client.trusted
    assert client.host_info["environment"]["server"] == "keelson"
    assert client.has_api_extension("storage")
    assert not client.has_api_extension("no_such_extension")


@check
def low_level_api(client):
    assert client.api.get().json()["metadata"]["api_version"] == "1.0"
    assert client.api.instances.get().json()["metadata"] == []
    answer = client.api.profiles["default"].get()
    assert answer.status_code == 200 and answer.json()["metadata"]["name"] == "default"


@check
def containers_create_and_start(client):
    instance = launch(client, "c1", config={"user.a": "1"}, description="mine")
    assert instance.status == "Running", instance.status
    assert client.containers.exists("c1") and not client.containers.exists("nope")
    assert [one.name for one in client.containers.all()] == ["c1"]
    assert instance.config["user.a"] == "1" and instance.description == "mine"
    assert instance.expanded_devices["root"]["pool"] == "p"
    refused(exceptions.NotFound, client.containers.get, "nope")
    refused(exceptions.LXDAPIException, client.containers.create, {"name": "a_b", "source": {"type": "none"}}, wait=True)


@check
def containers_state(client):
    instance = client.containers.get("c1")
    state = instance.state()
    assert state.status == "Running" and state.pid > 1 and state.memory["usage"] > 0 and state.cpu["usage"] > 0
    until("an address", lambda: any(
        address["family"] == "inet" for address in instance.state().network["eth0"]["addresses"]))


@check
def containers_execute(client):
    instance = client.containers.get("c1")
    result = instance.execute(["sh", "-c", "echo out; echo err >&2; echo $A; exit 3"], environment={"A": "b"})
    assert result == (3, "out\nb\n", "err\n"), result
    result = instance.execute(["cat"], stdin_payload="from here\n")
    assert result == (0, "from here\n", ""), result
    lines = []
    result = instance.execute(["sh", "-c", "echo one; echo two"], stdout_handler=lines.append, decode=True)
    assert result.exit_code == 0 and "".join(lines).split() == ["one", "two"], lines
    assert instance.execute(["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"])[1] == "x" * 200000
    assert instance.execute(["nonexistent"]).exit_code == 127
    raw = instance.raw_interactive_execute(["sh"])
    assert set(raw) == {"ws", "control"} and "/websocket?secret=" in raw["ws"]


@check
def containers_files(client):
    files = client.containers.get("c1").files
    files.put("/root/f", "text", mode=0o640, uid=5, gid=6)
    assert files.get("/root/f") == b"text"
    files.put("/root/b", bytes(range(256)) * 1000)
    assert files.get("/root/b") == bytes(range(256)) * 1000
    assert client.containers.get("c1").execute(["stat", "-c", "%u:%g:%a", "/root/f"])[1] == "5:6:640\n"
    assert files.delete_available()
    files.delete("/root/f")
    refused(exceptions.NotFound, files.get, "/root/f")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/leaf", "w") as leaf:
            leaf.write("leaf")
        files.recursive_put(folder, "/root/tree")
    assert files.get("/root/tree/leaf") == b"leaf"


@check
def containers_save(client):
    instance = client.containers.get("c1")
    instance.config["user.b"] = "2"
    instance.description = "changed"
    instance.save(wait=True)
    again = client.containers.get("c1")
    assert again.config["user.b"] == "2" and again.description == "changed" and not again.dirty
    again.patch({"config": {"user.c": "3"}}, wait=True)
    assert again.config["user.c"] == "3" and again.config["user.b"] == "2"
    again.config["no.such"] = "1"
    refused(exceptions.LXDAPIException, again.save, wait=True)
    again.rollback()
    assert "no.such" not in again.config and not again.dirty


@check
def containers_freeze_restart_stop(client):
    instance = client.containers.get("c1")
    instance.freeze(wait=True)
    instance.sync()
    assert instance.status == "Frozen", instance.status
    instance.unfreeze(wait=True)
    instance.restart(wait=True, force=True)
    instance.sync()
    assert instance.status == "Running", instance.status
    instance.stop(wait=True, timeout=60)
    instance.sync()
    assert instance.status == "Stopped", instance.status
    refused(exceptions.LXDAPIException, instance.stop, wait=True)


@check
def containers_snapshots(client):
    instance = client.containers.get("c1")
    instance.files.put("/root/value", "one")
    snapshot = instance.snapshots.create("s1", wait=True)
    assert snapshot.name == "s1", snapshot.name
    instance.files.put("/root/value", "two")
    snapshot.restore(wait=True)
    assert instance.files.get("/root/value") == b"one"
    snapshot.rename("s2", wait=True)
    assert [one.name for one in instance.snapshots.all()] == ["s2"]
    instance.restore_snapshot("s2", wait=True)
    published = instance.snapshots.get("s2").publish(wait=True)
    assert len(published.fingerprint) == 64
    published.delete(wait=True)
    instance.snapshots.get("s2").delete(wait=True)
    assert instance.snapshots.all() == []
    refused(exceptions.NotFound, instance.snapshots.get, "s2")


@check
def containers_copy_and_publish(client):
    source = {"type": "copy", "source": "c1"}
    client.containers.create({"name": "c2", "source": source}, wait=True)
    image = client.containers.get("c2").publish(wait=True)
    image.add_alias("published", "")
    assert client.images.get_by_alias("published").fingerprint == image.fingerprint
    image.delete(wait=True)
    client.containers.get("c2").delete(wait=True)


@check
def containers_rename_and_delete(client):
    instance = client.containers.get("c1")
    instance.rename("c3", wait=True)
    assert not client.containers.exists("c1")
    client.containers.get("c3").delete(wait=True)
    assert client.containers.all() == []


@check
def images(client):
    with open(TARBALL, "rb") as tarball:
        data = tarball.read()
    image = client.images.create(data, public=True, wait=True)
    assert image.public and client.images.exists(image.fingerprint)
    image.add_alias("mine", "an alias")
    image.sync()
    assert image.aliases[0]["name"] == "mine"
    assert client.images.exists("mine", alias=True) and not client.images.exists("nope", alias=True)
    with image.export() as exported:
        assert exported.read() == data
    image.properties["colour"] = "blue"
    image.public = False
    image.save(wait=True)
    again = client.images.get(image.fingerprint[:12])
    assert again.properties["colour"] == "blue" and not again.public
    image.delete_alias("mine")
    refused(exceptions.NotFound, client.images.get_by_alias, "mine")
    assert len(client.images.all()) == 2
    image.delete(wait=True)
    refused(exceptions.NotFound, client.images.get, image.fingerprint)


@check
def profiles(client):
    profile = client.profiles.create("p1", config={"user.a": "1"}, devices={"d": {"type": "none"}})
    assert client.profiles.exists("p1")
    profile.config["user.b"] = "2"
    profile.description = "mine"
    profile.save()
    assert client.profiles.get("p1").config == {"user.a": "1", "user.b": "2"}
    renamed = profile.rename("p2")
    assert renamed.name == "p2"
    assert sorted(one.name for one in client.profiles.all()) == ["default", "p2"]
    assert client.profiles.get("p2").used_by == []
    refused(exceptions.LXDAPIException, client.profiles.create, "p2")
    client.profiles.get("p2").delete()
    refused(exceptions.NotFound, client.profiles.get, "p2")


@check
def networks(client):
    network = client.networks.create(
        BRIDGE, description="mine", type="bridge", config={"ipv4.address": ADDRESS, "ipv6.address": "none"})
    assert network.managed and network.config["ipv4.address"] == ADDRESS
    assert client.networks.exists(BRIDGE) and not client.networks.exists("nope")
    network.config["user.a"] = "1"
    network.save()
    assert client.networks.get(BRIDGE).config["user.a"] == "1"
    assert client.api.networks[BRIDGE].state.get().json()["metadata"]["state"] == "up"
    renamed = network.rename(f"{BRIDGE}y")
    assert renamed.name == f"{BRIDGE}y"
    assert renamed.name in [one.name for one in client.networks.all()]
    client.networks.get(renamed.name).delete()
    refused(exceptions.NotFound, client.networks.get, renamed.name)


@check
def storage_pools(client):
    pool = client.storage_pools.create({"name": "extra", "driver": "dir", "config": {}})
    assert pool.name == "extra" and client.storage_pools.exists("extra")
    assert client.storage_pools.get("extra").driver == "dir"
    assert sorted(one.name for one in client.storage_pools.all()) == ["extra", "p"]
    assert pool.resources.get().space["total"] > 0
    pool.description = "mine"
    pool.save(wait=True)
    pool.patch({"config": {"user.x": "1"}}, wait=True)
    pool.sync()
    assert pool.description == "mine" and pool.config["user.x"] == "1" and not pool.used_by
    pool.put({"description": "", "config": {"source": pool.config["source"]}}, wait=True)
    assert pool.description == ""
    refused(exceptions.NotFound, client.storage_pools.get, "nope")
    refused(exceptions.LXDAPIException, client.storage_pools.create, {"name": "extra", "driver": "dir"})


@check
def storage_volumes(client):
    pool = client.storage_pools.get("extra")
    volume = pool.volumes.create({"name": "v1", "type": "custom", "config": {"user.a": "1"}}, wait=True)
    assert (volume.type, volume.name) == ("custom", "v1")
    volume.config["user.b"] = "2"
    volume.save(wait=True)
    assert pool.volumes.get("custom", "v1").config == {"user.a": "1", "user.b": "2"}
    volume.patch({"config": {"user.c": "3"}}, wait=True)
    assert volume.config["user.c"] == "3"
    volume.put({"description": "mine", "config": {}}, wait=True)
    assert volume.description == "mine" and volume.config == {}
    volume.rename({"name": "v2", "pool": "extra"})
    volume = pool.volumes.get("custom", "v2")
    assert [one.name for one in pool.volumes.all()] == ["v2"]
    volume.delete()
    refused(exceptions.NotFound, pool.volumes.get, "custom", "v2")


@check
def storage_pools_delete(client):
    client.storage_pools.get("extra").delete()
    assert not client.storage_pools.exists("extra")
    refused(exceptions.LXDAPIException, client.storage_pools.get("p").delete)


@check
def certificates(client):
    with open(f"{STATE}/suite.crt", "rb") as pem:
        data = pem.read()
    found = client.certificates.create("", data)
    assert found.type == "client" and found.certificate.strip() == data.decode().strip()
    assert [one.fingerprint for one in client.certificates.all()] == [found.fingerprint]
    found.delete()
    assert client.certificates.all() == []


@check
def operations(client):
    answer = client.api.instances.post(json={"name": "o1", "source": {"type": "none"}})
    path = answer.json()["operation"]
    operation = client.operations.get(path)
    assert operation.id == path.split("/")[-1]
    operation.wait()
    client.operations.wait_for_operation(path)
    assert client.operations.get(path).status == "Success"
    client.containers.get("o1").delete(wait=True)
    refused(exceptions.NotFound, client.operations.get, "00000000-0000-4000-8000-000000000000")


@check
def events(client):
    socket = client.events(event_types={pylxd.EventType.Lifecycle})
    heard = []
    opened = threading.Event()

    def received(message):
        heard.append(json.loads(message.data))

    socket.received_message = received
    socket.opened = opened.set
    socket.connect()
    reader = threading.Thread(target=socket.run, daemon=True)
    reader.start()

    def change():
        client.profiles.get("default").patch({"config": {"user.tick": str(time.monotonic())}})
        return heard

    until("an event", change)
    assert heard[0]["type"] == "lifecycle" and heard[0]["metadata"]["action"] == "profile-updated", heard[0]
    socket.close()


@check
def cluster(client):
    # A server outside a cluster says so.
    assert client.api.cluster.get().json()["metadata"]["enabled"] is False


def main():
    client = pylxd.Client()  # finds the server by LXD_DIR
    for function in CHECKS:
        try:
            function(client)
            error = None
        except Exception:  # pylint: disable=broad-except
            error = traceback.format_exc(limit=-4)
        print(json.dumps({"name": function.__name__, "error": error}), flush=True)


if __name__ == "__main__":
    main()
