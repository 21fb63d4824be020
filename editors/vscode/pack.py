"""Pack the extension into a .vsix file, beside which nothing else is needed."""

from __future__ import annotations

import json
import sys
import zipfile
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("package.json", "extension.js", "language-configuration.json", "README.md", "LICENSE", "syntaxes")
MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="{name}" Version="{version}" Publisher="{publisher}"/>
    <DisplayName>{displayName}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Categories>{categories}</Categories>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="{engine}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
    </Properties>
    <License>extension/LICENSE</License>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md"
           Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE"
           Addressable="true"/>
  </Assets>
</PackageManifest>
"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="json" ContentType="application/json"/>
  <Default Extension="js" ContentType="application/javascript"/>
  <Default Extension="md" ContentType="text/markdown"/>
  <Default Extension="txt" ContentType="text/plain"/>
  <Default Extension="vsixmanifest" ContentType="text/xml"/>
  <Default Extension="" ContentType="text/plain"/>
</Types>
"""


def pack(modules: Path, target: Path) -> Path:
    """Write the package. ``modules`` is the folder ``node_modules`` with the extension's dependencies."""
    about = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    for needed in about["dependencies"]:
        if not (modules / needed).is_dir():
            raise SystemExit(f"{needed} is not installed in {modules}. Run: npm ci --omit=dev")
    values = {key: escape(str(value)) for key, value in about.items()}
    values |= {"categories": escape(",".join(about["categories"])), "engine": about["engines"]["vscode"]}
    target.mkdir(parents=True, exist_ok=True)
    package = target / f"{about['name']}-{about['version']}.vsix"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("extension.vsixmanifest", MANIFEST.format(**values))
        archive.writestr("[Content_Types].xml", TYPES)
        for name in FILES:
            root = HERE / name
            for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
                archive.write(file, f"extension/{file.relative_to(HERE).as_posix()}")
        for file in sorted(modules.rglob("*")):
            if file.is_file() and ".bin" not in file.parts:
                archive.write(file, f"extension/node_modules/{file.relative_to(modules).as_posix()}")
    return package


if __name__ == "__main__":
    sys.stdout.write(f"{pack(HERE / 'node_modules', HERE)}\n")
