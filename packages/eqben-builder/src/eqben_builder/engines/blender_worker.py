"""Runs inside Blender, or in a Python that has `bpy`, and renders the scenes that arrive as lines of JSON.

Of this package it imports nothing: Blender brings a Python of its own. Each line that comes in is one scene, with its
meshes in files; each line that goes out is `{"ready": version}`, `{"done": seconds}` or `{"error": text}`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any, TextIO


def main() -> None:
    """Answer until there is nothing more to read."""
    # What Blender itself prints goes to standard error, not between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import bpy

    if bpy.app.version < (4, 0, 0):
        _say(answers, {"error": f"Blender {bpy.app.version_string} is too old, expected 4.0 or newer"})
        return
    _say(answers, {"ready": bpy.app.version_string})
    for line in sys.stdin:
        start = time.perf_counter()
        try:
            _render(json.loads(line))
        except Exception as error:  # noqa: BLE001  # whatever it is, the other side has to hear of it
            _say(answers, {"error": f"{type(error).__name__}: {error}"})
        else:
            _say(answers, {"done": time.perf_counter() - start})


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(f"{json.dumps(what)}\n")
    answers.flush()


def _render(order: dict[str, Any]) -> None:
    import bpy
    import numpy as np

    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    _settings(scene, order)
    camera = _camera(scene, order["camera"])
    _lights(scene, order["lights"])
    _floor(scene, order["floor"])
    things = [_thing(scene, thing) for thing in order["things"]]
    bpy.context.view_layer.update()
    np.save(order["seen"], _seen(scene, camera, order, things))
    bpy.ops.render.render(write_still=True)


def _settings(scene: Any, order: dict[str, Any]) -> None:
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    cycles.device = "CPU"
    render.threads_mode, render.threads = "FIXED", 1
    cycles.samples, cycles.seed, cycles.use_adaptive_sampling = order["samples"], order["seed"], False
    cycles.max_bounces = order["depth"]
    cycles.transparent_max_bounces = 16
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    cycles.use_denoising = order["denoise"]
    if order["denoise"]:
        cycles.denoiser = "OPENIMAGEDENOISE"
    render.resolution_x = render.resolution_y = order["size"]
    render.resolution_percentage = 100
    render.filepath = order["picture"]
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGB"
    scene.view_settings.view_transform = "Standard"
    scene.display_settings.display_device = "sRGB"


def _camera(scene: Any, place: dict[str, Any]) -> Any:
    import bpy
    from mathutils import Vector

    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.angle = math.radians(place["field_of_view"])
    camera.location = place["at"]
    aim = Vector(place["to"]) - Vector(place["at"])
    camera.rotation_euler = aim.to_track_quat("-Z", "Y").to_euler()
    scene.collection.objects.link(camera)
    scene.camera = camera
    return camera


def _lights(scene: Any, lights: dict[str, Any]) -> None:
    import bpy
    import numpy as np
    from mathutils import Vector

    lamp = bpy.data.lights.new("lamp", "AREA")
    lamp.shape, lamp.size = "SQUARE", 2 * lights["half"]
    brightest = max(lights["radiance"])
    lamp.color = [value / brightest for value in lights["radiance"]]
    # Watts of a surface that sends the same radiance everywhere.
    lamp.energy = brightest * math.pi * lamp.size**2
    shining = bpy.data.objects.new("lamp", lamp)
    shining.location = lights["at"]
    shining.rotation_euler = (-Vector(lights["at"])).to_track_quat("-Z", "Y").to_euler()
    scene.collection.objects.link(shining)

    world = bpy.data.worlds.new("sky")
    scene.world = world
    if world.node_tree is None:
        world.use_nodes = True
    nodes, links = world.node_tree.nodes, world.node_tree.links
    nodes.clear()
    picture = nodes.new("ShaderNodeTexEnvironment")
    picture.image = _image("sky", np.load(lights["sky"]))
    background = nodes.new("ShaderNodeBackground")
    links.new(picture.outputs["Color"], background.inputs["Color"])
    links.new(background.outputs["Background"], nodes.new("ShaderNodeOutputWorld").inputs["Surface"])


def _image(name: str, linear: Any) -> Any:
    """An image of linear light, [height, width, 3], the top row first."""
    import bpy
    import numpy as np

    height, width, _ = linear.shape
    image = bpy.data.images.new(name, width, height, alpha=False, float_buffer=True, is_data=True)
    pixels = np.ones((height, width, 4), dtype=np.float32)
    pixels[..., :3] = linear[::-1]
    image.pixels.foreach_set(pixels.ravel())
    image.update()
    return image


def _floor(scene: Any, floor: dict[str, Any]) -> None:
    import numpy as np

    half = floor["half"]
    corners = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]], dtype=np.float32)
    mesh = _mesh("floor", corners, np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32), smooth=False)
    layer = mesh.uv_layers.new()
    around = np.array([[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]], dtype=np.float32)
    layer.data.foreach_set("uv", (around * floor["repeats"]).ravel())
    material, shader = _material("floor", "ShaderNodeBsdfDiffuse")
    if floor["texture"] is None:
        shader.inputs["Color"].default_value = (*floor["tone"], 1)
    else:
        picture = material.node_tree.nodes.new("ShaderNodeTexImage")
        picture.image = _image("floor", np.load(floor["texture"]))
        material.node_tree.links.new(picture.outputs["Color"], shader.inputs["Color"])
    mesh.materials.append(material)
    _place(scene, "floor", mesh)


def _thing(scene: Any, thing: dict[str, Any]) -> Any:
    import numpy as np

    if thing["mesh"].endswith(".npz"):
        with np.load(thing["mesh"]) as arrays:
            mesh = _mesh("thing", arrays["vertices"], arrays["faces"], smooth=bool(arrays["smooth"]))
    else:
        mesh = _read(thing["mesh"])
    mesh.materials.clear()
    mesh.materials.append(_covering(thing))
    placed = _place(scene, "thing", mesh)
    placed.location = (thing["x"], thing["y"], 0)
    placed.rotation_euler = (0, 0, thing["turn"])
    placed.scale = (thing["radius"],) * 3
    return placed


def _mesh(name: str, vertices: Any, faces: Any, *, smooth: bool) -> Any:
    import bpy

    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices.tolist(), [], faces.tolist())
    mesh.polygons.foreach_set("use_smooth", [smooth] * len(mesh.polygons))
    mesh.update()
    return mesh


def _read(path: str) -> Any:
    """A mesh file, standing on the floor with half a diagonal of one."""
    import bpy
    import numpy as np

    axes = {"forward_axis": "Y", "up_axis": "Z"}
    read = bpy.ops.wm.obj_import if path.lower().endswith(".obj") else bpy.ops.wm.ply_import
    try:
        read(filepath=path, **axes)
    except RuntimeError as error:
        raise ValueError(f"{path} is no mesh that Blender reads: {' '.join(str(error).split())}") from error
    parts = [part for part in bpy.context.selected_objects if part.type == "MESH"]
    if not parts:
        raise ValueError(f"{path} is no mesh that Blender reads")
    if len(parts) > 1:
        bpy.context.view_layer.objects.active = parts[0]
        bpy.ops.object.join()
    mesh = parts[0].data.copy()
    bpy.data.objects.remove(parts[0])
    numbers = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.vertices.foreach_get("co", numbers)
    vertices = numbers.reshape(-1, 3)
    if not len(mesh.polygons) or not np.isfinite(vertices).all() or float(np.ptp(vertices)) == 0.0:
        raise ValueError(f"{path} holds no triangles of any extent")
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    middle = np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]])
    mesh.vertices.foreach_set("co", ((vertices - middle) * (2 / np.linalg.norm(high - low))).astype(np.float32).ravel())
    mesh.polygons.foreach_set("use_smooth", [True] * len(mesh.polygons))
    mesh.update()
    return mesh


def _material(name: str, kind: str) -> tuple[Any, Any]:
    """A material of one shader."""
    import bpy

    material = bpy.data.materials.new(name)
    if material.node_tree is None:
        material.use_nodes = True
    nodes = material.node_tree.nodes
    nodes.clear()
    shader = nodes.new(kind)
    material.node_tree.links.new(shader.outputs[0], nodes.new("ShaderNodeOutputMaterial").inputs["Surface"])
    return material, shader


def _covering(thing: dict[str, Any]) -> Any:
    import bpy

    if thing["texture"] is not None:
        material, shader = _material("textured", "ShaderNodeBsdfPrincipled")
        shader.inputs["Roughness"].default_value = 0.5
        picture = material.node_tree.nodes.new("ShaderNodeTexImage")
        picture.image = bpy.data.images.load(thing["texture"])
        material.node_tree.links.new(picture.outputs["Color"], shader.inputs["Base Color"])
        return material
    colour = (*thing["colour"], 1)
    if thing["material"] == "metal":
        material, shader = _material("metal", "ShaderNodeBsdfPrincipled")
        shader.inputs["Base Color"].default_value = colour
        shader.inputs["Metallic"].default_value = 1.0
        shader.inputs["Roughness"].default_value = 0.16
    elif thing["material"] == "glass":
        # A thin sheet: what is not reflected goes straight on.
        material, shader = _material("glass", "ShaderNodeMixShader")
        nodes, links = material.node_tree.nodes, material.node_tree.links
        # Blender takes the inner side for a way out of solid glass, and 1 / IOR; a sheet has air on both.
        side, index = nodes.new("ShaderNodeNewGeometry"), nodes.new("ShaderNodeMath")
        index.operation = "MULTIPLY_ADD"
        index.inputs[1].default_value, index.inputs[2].default_value = 1 / 1.5 - 1.5, 1.5
        links.new(side.outputs["Backfacing"], index.inputs[0])
        fresnel = nodes.new("ShaderNodeFresnel")
        links.new(index.outputs[0], fresnel.inputs["IOR"])
        through, mirror = nodes.new("ShaderNodeBsdfTransparent"), nodes.new("ShaderNodeBsdfGlossy")
        through.inputs["Color"].default_value = colour
        mirror.inputs["Color"].default_value = (1, 1, 1, 1)
        mirror.inputs["Roughness"].default_value = 0.0
        links.new(fresnel.outputs[0], shader.inputs[0])
        links.new(through.outputs[0], shader.inputs[1])
        links.new(mirror.outputs[0], shader.inputs[2])
    else:
        material, shader = _material("rubber", "ShaderNodeBsdfDiffuse")
        shader.inputs["Color"].default_value = colour
    return material


def _place(scene: Any, name: str, mesh: Any) -> Any:
    import bpy

    placed = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(placed)
    return placed


def _seen(scene: Any, camera: Any, order: dict[str, Any], things: list[Any]) -> Any:
    """Who is seen at the middle of each pixel, by casting one ray: int16 [size, size], -1 for the floor and the sky."""
    import bpy
    import numpy as np
    from mathutils import Vector

    size = order["size"]
    numbers = {thing.name: index for index, thing in enumerate(things)}
    graph = bpy.context.evaluated_depsgraph_get()
    turn, origin = camera.matrix_world.to_quaternion(), camera.matrix_world.translation
    half = math.tan(camera.data.angle / 2)
    seen = np.full((size, size), -1, dtype=np.int16)
    for row in range(size):
        y = half * (1 - (2 * row + 1) / size)
        for column in range(size):
            x = half * ((2 * column + 1) / size - 1)
            hit, _, _, _, found, _ = scene.ray_cast(graph, origin, turn @ Vector((x, y, -1.0)))
            if hit and found.name in numbers:
                seen[row, column] = numbers[found.name]
    return seen


if __name__ == "__main__":
    main()
